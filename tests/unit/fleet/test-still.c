/* SPDX-License-Identifier: Apache-2.0
 *
 * test-still.c: what a server's answer says of a message. */
#include "fleet/still.h"

#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/suite.h"

/* "NATS/1.0\r\nNats-Msg-Id: abc-1\r\nWsd-Home: here\r\n\r\n" */
#define HEADERS "TkFUUy8xLjANCk5hdHMtTXNnLUlkOiBhYmMtMQ0KV3NkLUhvbWU6IGhlcmUNCg0K"

static const struct {
    const char *answer, *id;
    enum still wanted;
} answers[] = {
    {"{\"message\":{\"subject\":\"s\",\"seq\":7,\"hdrs\":\"" HEADERS "\"}}", "abc-1", STILL_THERE},
    {"{\"message\":{\"subject\":\"s\",\"seq\":7,\"hdrs\":\"" HEADERS "\"}}", "abc-2", STILL_GONE},
    {"{\"message\":{\"subject\":\"s\",\"seq\":7,\"hdrs\":\"" HEADERS "\"}}", "abc-", STILL_GONE},
    {"{\"message\":{\"subject\":\"s\",\"seq\":7,\"hdrs\":\"" HEADERS "\"}}", "", STILL_GONE},
    {"{\"message\":{\"subject\":\"s\",\"seq\":7,\"hdrs\":\"noise\"}}", "abc-1", STILL_GONE},
    {"{\"message\":{\"subject\":\"s\",\"seq\":7}}", "abc-1", STILL_GONE},
    {"{\"message\":{\"subject\":\"s\",\"seq\":7}}", "", STILL_THERE},
    {"{\"error\":{\"code\":404,\"err_code\":10037,\"description\":\"no message found\"}}", "abc-1", STILL_GONE},
    {"{\"error\":{\"code\":404,\"err_code\":10037,\"description\":\"no message found\"}}", "", STILL_GONE},
    {"{\"error\":{\"code\":404,\"err_code\":10059,\"description\":\"stream not found\"}}", "abc-1", STILL_GONE},
    {"{\"error\":{\"code\":503,\"err_code\":10008,\"description\":\"JetStream system temporarily unavailable\"}}",
     "abc-1", STILL_UNKNOWN},
    {"{\"error\":{\"code\":500,\"description\":\"noise\"}}", "", STILL_UNKNOWN},
    {"noise", "", STILL_GONE},
    {NULL, "abc-1", STILL_UNKNOWN},
};

START_TEST(a_message_is_known_by_its_id)
{
    const char *text = answers[_i].answer;
    natsMsg *msg = NULL;

    ck_assert_int_eq(nats_Open(-1), NATS_OK);
    if (text)
        ck_assert_int_eq(natsMsg_Create(&msg, "answer", NULL, text, (int)strlen(text)), NATS_OK);
    ck_assert_int_eq(still_answer(msg, answers[_i].id), answers[_i].wanted);
    natsMsg_Destroy(msg);
}
END_TEST

/* Headers around the limit: a line behind the id, of so many bytes of base64 together. */
START_TEST(headers_have_a_limit)
{
    static const struct {
        size_t groups;
        enum still wanted;
    } sizes[] = {{255, STILL_THERE}, {256, STILL_THERE}, {257, STILL_GONE}};
    char text[2048] = "{\"message\":{\"hdrs\":\"" HEADERS;
    natsMsg *msg = NULL;

    ck_assert_int_eq(nats_Open(-1), NATS_OK);
    for (size_t n = strlen(HEADERS) / 4; n < sizes[_i].groups; n++)
        strcat(text, "eHh4");
    strcat(text, "\"}}");
    ck_assert_int_eq(natsMsg_Create(&msg, "answer", NULL, text, (int)strlen(text)), NATS_OK);
    ck_assert_int_eq(still_answer(msg, "abc-1"), sizes[_i].wanted);
    natsMsg_Destroy(msg);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fleet still");
    TCase *c = tcase_create("still");

    tcase_add_loop_test(c, a_message_is_known_by_its_id, 0, ARRAY_SIZE(answers));
    tcase_add_loop_test(c, headers_have_a_limit, 0, 3);
    suite_add_tcase(s, c);
    return run_suite(s);
}
