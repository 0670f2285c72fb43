#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# web-page.sh: the page of wsd-web in a browser, while real jobs run (support/clients/page.py). PICTURES: a directory for
# pictures of each view.
. "$(dirname "$0")/../support/lib.sh"

WEB=$BUILD/daemon/web/wsd-web
[ -x "$WEB" ] || {
  skip "the page" "wsd-web was not built: jansson is not there"
  exit
}
if [ ! -x /usr/bin/chromedriver ] || ! /usr/bin/python3 -c 'import selenium' 2>/dev/null || [ ! -e /usr/share/javascript/chart.js/chart.min.js ]; then
  skip "the page" "there is no Chromium, Selenium or Chart.js here (packaging/install-deps page)"
  exit
fi

WSD_SOCKET=$WORK/wsd.sock
export WSD_SOCKET
WSD_OPTIONS=(--workers 2 --plugin-dir "$TEST_PLUGINS:$PLUGINS")
serve || exit 1
"$WEB" --listen 127.0.0.1:0 --token --act >"$WORK/web.out" 2>&1 &
note_started $!
wait_until grep -q token "$WORK/web.out" || exit 1
PYTHONDONTWRITEBYTECODE=1 timeout $((240 * TIME_SCALE)) /usr/bin/python3 "$SRC/tests/support/clients/page.py" "$(cat "$WORK/web.out")" "$WSD_SOCKET" \
  ${PICTURES:+"$PICTURES"} >"$WORK/said" 2>&1 </dev/null || n_failed=$((n_failed + 1))
cat "$WORK/said"
grep -q '^ok ' "$WORK/said" || fail "the page" "nothing was checked"
stop_wsd
