/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

/* The thread that has the model: opens it, answers one job of the queue after the other, and ends when the
   queue is closed and empty. Tells SERVER_READY or SERVER_FAILED, and SERVER_FINISHED. The argument is the
   server. */
void *worker_run(void *server);

#endif
