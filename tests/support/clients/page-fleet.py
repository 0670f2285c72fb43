#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page-fleet.py: what wsd-web's page shows of other machines, in Chromium.

    page-fleet.py URL WORDS...    URL: with its token. Succeeds once the view of the fleet has all the words; one that
                                  begins with ! stands in the overview."""
import sys
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

options = Options()
for option in '--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--lang=en', '--window-size=1280,900':
    options.add_argument(option)
options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
driver = webdriver.Chrome(service=Service('/usr/bin/chromedriver'), options=options)


def lacks(view, words):
    """The words that this view has not after a while."""
    driver.execute_script('location.hash = arguments[0]', '#/' + view)
    for _ in range(600):
        shown = driver.find_element(By.ID, 'main').text
        if all(word in shown for word in words):
            return []
        time.sleep(0.05)
    return [word for word in words if word not in shown] + [shown]


try:
    driver.get(sys.argv[1])
    missing = lacks('fleet', [word for word in sys.argv[2:] if word[0] != '!'])
    if not missing and not driver.find_element(By.ID, 'fleet-link').is_displayed():
        missing = ['the link to it']
    missing += lacks('', [word[1:] for word in sys.argv[2:] if word[0] == '!'])
    said = [entry for entry in driver.get_log('browser') if entry['level'] in ('SEVERE', 'WARNING')]
    if missing or said:
        sys.exit(f'missing: {missing}; the console: {said}')
finally:
    driver.quit()
