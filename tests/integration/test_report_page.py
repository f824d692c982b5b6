"""The report as a page, in a real browser: from a file alone, for everybody, wide and narrow, light and dark."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner

from sandgauge_report.command import report
from support.browser import Watched, running_browser

pytestmark = pytest.mark.integration

MIXED = Path(__file__).parents[1] / "fixtures" / "report" / "mixed" / "input.jsonl"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("report") / "report.html"
    ended = CliRunner().invoke(report, [str(MIXED), "--format", "html", "--output", str(file)])
    assert ended.exit_code == 0, ended.output
    return file


@pytest.fixture(scope="module")
def browser():
    with running_browser() as found:
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_it_is_for_everybody_and_asks_nothing_of_anybody(browser, page_file, scheme, width):
    # The page itself lets no script run, and so none that looks at it.
    with browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True) as context:
        watched = Watched(context.new_page())
        page = watched.page
        page.goto(page_file.as_uri())
        assert page.get_by_role("img").count() > 2
        assert Axe().run(page).response["violations"] == []
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert watched.requested == [page_file.as_uri()]
    assert watched.complaints == []
