/* SPDX-License-Identifier: Apache-2.0 */
/* Where the command keeps things, by the XDG base directories. */
#ifndef CLI_PATHS_H
#define CLI_PATHS_H

/* The model of `postern run` without an operand: $XDG_CACHE_HOME/postern/SmolLM2-135M-Instruct.Q4_1.gguf,
   which may not exist. For free(); NULL when neither XDG_CACHE_HOME nor HOME is set. */
char *paths_default_model(void);

/* $XDG_STATE_HOME/postern/history, its directories made, private to the user. For free(); NULL when that
 * cannot be. */
char *paths_history(void);

#endif
