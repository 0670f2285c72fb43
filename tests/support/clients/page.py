#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py: wsd-web's page in Chromium, driven by Selenium.

    page.py URL SOCKET [DIRECTORY]    URL: with its token; DIRECTORY: for pictures of each view, light and dark, large and
                                      small

One line a check, as in lib.sh. Jobs are submitted by wsctl, which is in PATH."""
import getpass
import json
import os
import subprocess
import sys
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

VIEWS = ['', 'functions', 'jobs', 'pool', 'dead', 'schedules', 'limits', 'users', 'fleet', 'log']
LIMIT = 30 * int(os.environ.get('TIME_SCALE', '1'))
PHONE, DESK = (390, 844), (1280, 900)
HOSTILE = '<img src=x onerror=alert(1)><script>alert(1)</script>'
CONTROLS, ESCAPED = 'red\x1b[31m\x07\x7f\u202eend', r'red\x1b[31m\x07\x7f\u{202e}end'
# Text and what is behind it: WCAG 2.1, level AA, wants 4.5.
PAIRS = [('text', 'back'), ('text', 'panel'), ('faint', 'back'), ('faint', 'panel'), ('accent', 'panel'), ('accent', 'back'),
         ('good', 'good-back'), ('bad', 'bad-back'), ('warn', 'warn-back'), ('bad', 'panel')]

url = sys.argv[1]
os.environ['WSD_SOCKET'] = sys.argv[2]
pictures = sys.argv[3] if len(sys.argv) > 3 else None
failed = 0


def wsctl(*args):
    return subprocess.run(['wsctl', *args], capture_output=True, text=True, check=False).stdout.strip()


def start():
    options = Options()
    for option in ('--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--hide-scrollbars',
                   '--lang=en', '--window-size=%d,%d' % DESK):
        options.add_argument(option)
    options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
    driver = webdriver.Chrome(service=Service('/usr/bin/chromedriver'), options=options)
    driver.set_page_load_timeout(LIMIT)
    return driver


driver = start()


def until(what, words):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            if what():
                return
        except Exception as error:  # it was drawn anew meanwhile
            words = f'{words}: {error}'[:200]
        time.sleep(0.05)
    raise AssertionError(words)


def text():
    return driver.find_element(By.ID, 'main').text


def show(view):
    driver.execute_script('location.hash = arguments[0]', '#/' + view)
    until(lambda: driver.execute_script('return document.querySelector("main h2") !== null'), 'nothing is drawn')


def set_up(scheme, size):
    driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [{'name': 'prefers-color-scheme', 'value': scheme}]})
    driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride',
                           {'width': size[0], 'height': size[1], 'deviceScaleFactor': 1, 'mobile': size == PHONE})


def no_errors():
    said = [entry for entry in driver.get_log('browser') if entry['level'] in ('SEVERE', 'WARNING')]
    assert not said, said


def check(name, what):
    global failed
    try:
        what()
        no_errors()
        print('ok', name)
    except Exception as error:
        failed += 1
        print(f'FAIL {name}: {type(error).__name__}: {str(error)[:300]}')
    sys.stdout.flush()


# --- what is checked -----------------------------------------------------------------------------------------------


def it_opens():
    driver.get(url)
    until(lambda: 'succeeded' in text(), 'no look has come')
    assert 'token' not in driver.current_url, 'the token stays in the address'


def card(name):
    script = '''return [...document.querySelectorAll(".card")].filter(c => c.querySelector("span").textContent === arguments[0])
        .map(c => c.querySelector("b").textContent.replaceAll(",", ""))[0]'''
    return driver.execute_script(script, name)


def numbers_are_wsds():
    for i in range(7):
        wsctl('submit', 'fib', '5')
    wsctl('submit', 'fib', 'x')
    counters = json.loads(wsctl('--json', 'stats'))
    for name in 'succeeded', 'failed':
        until(lambda name=name: card(name) == str(counters['jobs_' + name]), f'{name} is {card(name)}, not {counters["jobs_" + name]}')


def charts_are_drawn():
    until(lambda: driver.execute_script('return state.charts.length === 2 && state.charts[0].data.datasets[0].data.length > 1'),
          'no charts')
    labels = driver.execute_script("""const [x] = state.charts[0].data.datasets[0].data;
        const says = state.charts[0].options.plugins.tooltip.callbacks.title([{ parsed: x }]);
        return [says, moment(x.x * 1e6), atTime(x.x * 1e6)]""")
    assert labels[0] == labels[1] and labels[2] in labels[0], labels


def each_view_is_drawn():
    for view in VIEWS:
        show(view)
    show('pool')
    until(lambda: 'worker' in text(), 'no workers')
    show('functions')
    until(lambda: 'fib' in text(), 'no functions')
    show('limits')
    until(lambda: 'max-jobs' in text(), 'no limits')


def a_crash_has_its_backtrace():
    job = wsctl('submit', '--detach', 'crash')
    wsctl('await', job)
    show('jobs')
    until(lambda: job[16:24] in text() and 'crashed' in text(), 'the job is not listed')
    driver.find_element(By.LINK_TEXT, job[16:24]).click()
    until(lambda: 'segv' in driver.find_element(By.ID, 'backtrace').text, 'no backtrace')
    assert 'Segmentation fault' in text()
    show('')
    until(lambda: 'crash:segv: of 1 job in' in text() and '1 crashed' in text(), 'health does not say so')


def executors_have_their_processes():
    wsctl('submit', 'fib', '5')  # the last one may have crashed
    show('pool')

    def are_shown():
        executors = [json.loads(line) for line in wsctl('--json', 'workers', '--executors').splitlines()]
        return executors and all(str(e['pid']) in text() for e in executors) and 'iB' in text()
    until(are_shown, 'no processes')


def quarantine_is_told_and_released():
    wsctl('submit', 'crash')
    wsctl('submit', 'crash')
    show('')
    until(lambda: 'crash:segv of' in text() and 'is in quarantine, tried again at' in text() and 'crashed 3 times, at last' in text(), 'health does not say so')
    show('functions')
    until(lambda: 'in quarantine' in text(), 'the function does not say so')
    driver.find_element(By.XPATH, '//tr[contains(., "crash:segv")]//button[text()="Release"]').click()
    until(lambda: 'in quarantine' not in text(), 'it was not released')


def words_go_by_the_number():
    wsctl('pause', 'fib')
    jobs = [wsctl('submit', '--detach', 'fib', '5')]
    show('')
    until(lambda: 'fib is paused: 1 job waits' in text(), 'not of one')
    show('functions')
    until(lambda: 'paused, 1 waits' in text(), 'not of one function')
    show('')
    jobs.append(wsctl('submit', '--detach', 'fib', '5'))
    until(lambda: 'fib is paused: 2 jobs wait' in text(), 'not of two')
    for job in jobs:
        wsctl('cancel', job)
    wsctl('resume', 'fib')


def what_was_done_is_told():
    show('log')
    until(lambda: 'release' in text() and 'crash' in text() and 'the holder of the page' in text() and 'granted' in text(), 'no release')
    wsctl('pause', 'from-elsewhere')
    until(lambda: 'from-elsewhere' in text(), 'nothing of wsctl')
    wsctl('resume', 'from-elsewhere')
    show('users')
    until(lambda: 'Succeeded' in text() and getpass.getuser() in text(), 'no users')


def what_a_job_waits_for_is_drawn():
    first = wsctl('submit', '--detach', '--delay', '1h', 'fib', '5')
    second = wsctl('submit', '--detach', '--after', first, 'fib', '5')
    third = wsctl('submit', '--detach', '--after', second, 'fib', '5')
    show('job/' + second)
    until(lambda: driver.find_element(By.ID, 'graph').get_attribute('aria-label') == 'waits for 1, holds up 1 job', 'no graph')
    driver.execute_script('document.querySelector("#graph a").dispatchEvent(new MouseEvent("click", {bubbles: true}))')
    until(lambda: driver.execute_script('return location.hash') == '#/job/' + first, 'its link leads nowhere')
    for job in first, second, third:
        wsctl('cancel', job)


def a_job_is_cancelled_by_a_click():
    job = wsctl('submit', '--detach', 'sleep:sleep', '600000')
    show('job/' + job)
    until(lambda: driver.find_element(By.XPATH, '//button[text()="Cancel"]').click() or True, 'no button')
    until(lambda: 'cancelled' in text(), 'it is not shown as cancelled')
    assert '"state":"cancelled"' in wsctl('--json', 'status', job)


def a_function_is_paused_by_a_click():
    show('functions')
    row = '//tr[td[1]="fib"]'
    until(lambda: driver.find_element(By.XPATH, row + '//button[text()="Pause"]').click() or True, 'no button')
    until(lambda: 'paused' in driver.find_element(By.XPATH, row).text, 'it is not paused')
    until(lambda: driver.find_element(By.XPATH, row + '//button[text()="Resume"]').click() or True, 'no button')
    until(lambda: 'paused' not in driver.find_element(By.XPATH, row).text, 'it is paused still')
    wsctl('pause', 'crash')
    row = '//tr[td[1]="crash:segv"]'
    until(lambda: driver.find_element(By.XPATH, row + '//button[text()="Resume"]').click() or True, 'no button')
    until(lambda: 'paused' not in driver.find_element(By.XPATH, row).text, 'its plugin is paused still')


def what_jobs_say_is_text():
    job = wsctl('submit', '--detach', 'direct:direct', 'fail', '7', HOSTILE)
    wsctl('await', job)
    show('jobs')
    until(lambda: job[16:24] in text(), 'the job is not listed')
    show('job/' + job)
    until(lambda: HOSTILE in text(), 'what it says is not shown: ' + text()[:300])
    assert not driver.find_elements(By.CSS_SELECTOR, 'main img, main script')


def control_characters_are_shown_escaped():
    job = wsctl('submit', '--detach', 'direct:direct', 'fail', '7', CONTROLS)
    wsctl('await', job)
    show('job/' + job)
    until(lambda: ESCAPED in text(), 'what it says is not shown: ' + text()[:300])


def jobs_are_found():
    job = wsctl('submit', '--detach', 'fib', '3')
    wsctl('await', job)
    show('jobs')
    until(lambda: job[16:24] in text(), 'the job is not listed')
    links = driver.execute_script('return [...document.querySelectorAll("td.id a")].map(a => a.textContent)')
    assert len(set(links)) == len(links) > 1, links
    field = driver.find_element(By.ID, 'find')
    field.send_keys(job)
    until(lambda: driver.execute_script('return document.querySelectorAll("tbody tr").length') == 1, 'not one row')
    time.sleep(2.5)  # looks come meanwhile, and the field keeps what was typed and where
    field = driver.switch_to.active_element
    assert field.get_attribute('id') == 'find' and field.get_attribute('value') == job
    field.send_keys(Keys.CONTROL, 'a')
    field.send_keys(Keys.DELETE)


def by_keyboard():
    driver.get('about:blank')
    it_opens()
    seen = []
    for i in range(9):
        driver.switch_to.active_element.send_keys(Keys.TAB)
        seen.append(driver.switch_to.active_element.text)
    assert 'Jobs' in seen and 'Limits' in seen, seen
    while driver.switch_to.active_element.text != 'Pool':
        driver.switch_to.active_element.send_keys(Keys.SHIFT, Keys.TAB)
    driver.switch_to.active_element.send_keys(Keys.ENTER)
    until(lambda: 'Executors' in text(), 'the view is not shown')


def fits_a_phone():
    set_up('light', PHONE)
    for view in VIEWS:
        show(view)
        wide = driver.execute_script('return document.documentElement.scrollWidth')
        assert wide <= PHONE[0], f'{view}: {wide} pixels wide'
        tall = driver.execute_script('return Math.max(0, ...[...document.querySelectorAll("tr")].map(r => r.offsetHeight))')
        assert tall <= PHONE[1] / 4, f'{view}: a row is {tall} pixels tall'


def luminance(rgb):
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def shade(name):
    value = driver.execute_script('return getComputedStyle(document.documentElement).getPropertyValue("--" + arguments[0]).trim()', name)
    value = value.lstrip('#')
    if len(value) == 3:
        value = ''.join(2 * c for c in value)
    return [int(value[i:i + 2], 16) for i in (0, 2, 4)]


def contrast():
    for scheme in 'light', 'dark':
        set_up(scheme, DESK)
        for front, back in PAIRS:
            a, b = sorted((luminance(shade(front)), luminance(shade(back))))
            ratio = (b + 0.05) / (a + 0.05)
            assert ratio >= 4.5, f'{scheme}: {front} on {back}: {ratio:.2f}'


def nothing_from_elsewhere():
    loaded = driver.execute_script('return performance.getEntriesByType("resource").map(e => e.name)')
    own = url.split('#')[0]
    assert loaded and all(name.startswith(own) for name in loaded), loaded


def take_pictures():
    for scheme in 'light', 'dark':
        for size in DESK, PHONE:
            set_up(scheme, size)
            for view in VIEWS:
                show(view)
                time.sleep(1.2)
                driver.save_screenshot(os.path.join(pictures, f'{view or "overview"}-{scheme}-{size[0]}.png'))


check('the page opens by its address', it_opens)
check('numbers are those of wsctl stats, and follow them', numbers_are_wsds)
check('charts are drawn', charts_are_drawn)
check('each view is drawn', each_view_is_drawn)
check('a crash has its backtrace, and health says so', a_crash_has_its_backtrace)
check('executors have their processes', executors_have_their_processes)
check('quarantine is told, and released by a click', quarantine_is_told_and_released)
check('words go by the number', words_go_by_the_number)
check('what was done is told, and what users have', what_was_done_is_told)
check('what a job waits for is drawn', what_a_job_waits_for_is_drawn)
check('a job is cancelled by a click', a_job_is_cancelled_by_a_click)
check('a function is paused by a click, and goes on', a_function_is_paused_by_a_click)
check('what jobs say is text', what_jobs_say_is_text)
check('and control characters in it are told, not done', control_characters_are_shown_escaped)
check('jobs are found, and what is typed stays', jobs_are_found)
check('by keyboard', by_keyboard)
check('it fits a phone', fits_a_phone)
check('contrast, in light and dark', contrast)
check('nothing comes from elsewhere', nothing_from_elsewhere)
if pictures:
    take_pictures()
driver.quit()
sys.exit(failed > 0)
