/* SPDX-License-Identifier: Apache-2.0 */
/* What every unit test includes before cmocka. */
#ifndef PN_TESTS_CHECK_H
#define PN_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
