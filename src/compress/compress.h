/* SPDX-License-Identifier: Apache-2.0 */
/* Models in postern's own packed integers; export/ brings them into the formats of others. */
#ifndef PN_COMPRESS_COMPRESS_H
#define PN_COMPRESS_COMPRESS_H

#include <postern.h>

/* pn_compress_weights into postern's own format, for the groups and kinds that options->format wants. Options
   are complete (pn_export_fit) and checked (compress/plan.h). */
pn_status pn_compress_to_panels(const char *in_path, const char *out_path, const pn_compress_options *options,
                                pn_progress_fn progress, void *user, pn_compress_result *result,
                                pn_error *err);

#endif
