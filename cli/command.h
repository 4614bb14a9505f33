/* SPDX-License-Identifier: Apache-2.0 */
/* The commands: one file cmd_<name>.c and one line here and in postern.c's table each. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "options.h"

extern const cli_command cmd_run;
extern const cli_command cmd_inspect;
extern const cli_command cmd_tokenize;
extern const cli_command cmd_template;
extern const cli_command cmd_bake;
extern const cli_command cmd_compress;
extern const cli_command cmd_pack;
extern const cli_command cmd_perplexity;
extern const cli_command cmd_bench;
extern const cli_command cmd_serve;

#endif
