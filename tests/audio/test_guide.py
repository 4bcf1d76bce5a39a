"""The Python of the guide runs from its beginning to its end, on hums in place of words."""

import json
import re

import numpy as np
import soundfile

from tests.audio.conftest import sine
from tests.references import ROOT


def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "corpus/spoken_words"
    folder.mkdir(parents=True)
    rows = []
    for index in range(6):
        samples = sine(200 + 100 * index, seconds=0.3 + 0.05 * index)
        noise = np.random.default_rng(index).normal(size=samples.size)
        soundfile.write(folder / f"{index}.wav", samples + 0.01 * noise, 16_000)
        rows.append({"audio": f"{index}.wav", "text": f"word {index}"})
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    guide = (ROOT / "docs/guides/speech.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(blocks) == 8
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/guides/speech.md", "exec"), names)
    assert capsys.readouterr().out.splitlines() == [
        "6 word 0 0.3",
        "(19, 80) (4, 30, 80) [19 22 26 29]",
        "word 0 (19, 80)",
        "1 0.227",
        "('waveforms', 'waveform_lengths', 'spectrograms', 'spectrogram_lengths', 'clusters')",
        "{'wer': 33.333333333333336}",
    ]
    assert (tmp_path / "corpus/word.wav").is_file()
    assert (tmp_path / "corpus/clusters.jsonl").read_text().count("\n") == 6
