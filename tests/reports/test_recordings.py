import base64
import io
import re
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import soundfile

from t5x_like.reports import rendering
from t5x_like.reports.recordings import played


@pytest.fixture
def tone(tmp_path: Path) -> Path:
    """Return a recording of half a second whose energy lies at 300 Hz."""
    soundfile.write(tmp_path / "a<b.wav", 0.5 * np.sin(np.arange(8000) * 2 * np.pi * 300 / 16_000), 16_000)
    return tmp_path / "a<b.wav"


def test_a_recording_is_played_from_the_page_itself_and_its_name_is_escaped(tone: Path) -> None:
    html = str(played(str(tone)))
    sound = re.search(r'src="data:audio/wav;base64,([^"]+)"', html)
    assert sound is not None
    assert base64.b64decode(sound[1]) == tone.read_bytes()
    assert "a&lt;b.wav" in html


def test_its_spectrogram_has_low_frequencies_at_the_bottom(tone: Path) -> None:
    image = re.search(r'src="data:image/png;base64,([^"]+)"', str(played(str(tone))))
    assert image is not None
    pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(image[1])))
    assert pixels.shape[:2] == (80, 32), "mel filters and frames"
    brightness = pixels[..., :3].sum(axis=(1, 2))
    assert brightness[40:].sum() > brightness[:40].sum()


def test_templates_of_both_reports_play_inputs(tone: Path) -> None:
    for name in ("run_report.html.j2", "evaluation_report.html.j2"):
        source = (Path(rendering.__file__).with_name("templates") / name).read_text(encoding="utf-8")
        (cell,) = re.findall(r"{{ (row.input \| played or [^}]+) }}", source)
        template = rendering._environment().from_string(
            "{% from 'parts.html.j2' import cut %}{{ " + cell + " }}"
        )
        assert "<audio controls" in template.render(row={"input": str(tone)})
        assert "&lt;p&gt;" in template.render(row={"input": "<p>"})


@pytest.mark.parametrize("text", ["a text", "nowhere.wav", 7])
def test_other_inputs_have_no_player(text: object) -> None:
    assert played(text) is None


def test_a_file_that_is_no_audio_or_longer_than_half_a_minute_has_no_player(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("RIFF")
    soundfile.write(tmp_path / "long.wav", np.full(31 * 8_000, 0.1), 8_000)
    assert played(str(tmp_path / "text.wav")) is None
    assert played(str(tmp_path / "long.wav")) is None
