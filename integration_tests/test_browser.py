"""The browser of the tests sees what a page asks for and complains of: so one that does neither is known."""

from pathlib import Path

from integration_tests.browser import open_page


def test_what_a_page_asks_for_and_complains_of_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<!doctype html><title>x</title><p>Some &lt;words&gt;</p>"
        '<img src="http://127.0.0.1:47999/picture.png"><script>console.error("a complaint")</script>'
    )
    opened = open_page(page, tmp_path)
    assert opened.text == "x Some <words>"
    assert opened.requests == ["http://127.0.0.1:47999/picture.png"]
    assert any("a complaint" in line for line in opened.console)
