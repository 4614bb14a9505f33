/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PN_COMPRESS_TARGET_H
#define PN_COMPRESS_TARGET_H

#include <postern.h>

/* pn_compress_weights with options->target_kl: tries ratios, each compressed for good and measured on pieces
   of the calibration text, and keeps the greatest that stays within the target. Files on the way are beside
   out_path and called .partial. */
pn_status pn_compress_to_kl(const char *in_path, const char *out_path, const pn_compress_options *options,
                            pn_progress_fn progress, void *user, pn_compress_result *result, pn_error *err);

#endif
