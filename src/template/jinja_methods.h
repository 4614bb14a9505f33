/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of strings, for the look-up of methods in jinja_methods.c. */
#ifndef PN_TEMPLATE_JINJA_METHODS_H
#define PN_TEMPLATE_JINJA_METHODS_H

#include "template/jinja_call.h"

const pn_jfunction *pn_jmethod_find_str(pn_str name);

#endif
