"""Synthetic speech for small experiments: espeak-ng speaks words of the CMU Pronouncing Dictionary in several voices.

python -m data.prepare.spoken_words --output corpus/spoken_words

It needs Debian's package espeak-ng (apt-get install espeak-ng) and the extra speech (pip install 't5x-like[speech]').
"""

import argparse
import functools
import hashlib
import io
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data.prepare.splits import shuffle_by_key
from t5x_like.audio.audio_files import resample, write_wav
from t5x_like.audio.audio_options import SAMPLING_RATE
from t5x_like.io.extra_libraries import extra_library
from t5x_like.io.files import shipped_directory, write_json, write_jsonl
from t5x_like.io.progress import Progress

NUM_WORDS = {"train": 1_000, "validation": 100}
# A language of espeak-ng and, after the plus, a variant of its voice.
SPEAKERS = ("en-us", "en-us+f2", "en-gb-x-rp+m3", "en-gb-scotland+f4")
SPEEDS = (140, 175, 210)  # words per minute; 175 is espeak-ng's own
SEED = 0

_EDGE = 0.02  # seconds kept before and after the sound
_LOUDEST = 0.9  # some voices reach full scale
_THRESHOLD = 1e-3  # -60 dB of full scale


class Utterance(NamedTuple):
    """A word that is spoken once.

    Attributes:
      word: The word.
      phonemes: Its pronunciation in ARPAbet, as the dictionary has it.
      speaker: Voice of espeak-ng.
      speed: Words per minute.
    """

    word: str
    phonemes: str
    speaker: str
    speed: int

    @property
    def file_name(self) -> str:
        """Name of the WAV file."""
        return f"{self.word}_{self.speaker.replace('+', '_')}_{self.speed}.wav"


def prepare(
    output: str | os.PathLike[str],
    *,
    num_words: dict[str, int],
    speakers: Sequence[str] = SPEAKERS,
    program: str = "espeak-ng",
    num_workers: int = 1,
) -> dict[str, object]:
    """Write ``<split>.jsonl`` with columns audio, text, phonemes, speaker, voice and speed, the WAV files, and figures.

    The words of the splits differ, as the dictionary's splits do.

    Args:
      output: Folder of the tables.
      num_words: Words of each split.
      speakers: Voices; each speaks every word at one speed.
      program: Name or path of espeak-ng.
      num_workers: Processes of espeak-ng at a time.

    Returns:
      Figures, as ``statistics.json`` has them.

    Raises:
      ValueError: espeak-ng isn't installed or fails, a split has fewer words, or no library writes audio.
    """
    if shutil.which(program) is None:
        raise ValueError(
            f"{program} isn't installed; on Debian or Ubuntu: apt-get install espeak-ng, or give its path by --program"
        )
    folder, started = Path(output), time.monotonic()
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    figures: dict[str, object] = {"program": version.partition("  Data at")[0], "speakers": list(speakers)}
    for split, count in num_words.items():
        utterances = plan(split, count, speakers)
        (folder / split).mkdir(parents=True, exist_ok=True)
        write = functools.partial(_write, folder / split, program)
        seconds = 0.0
        with (
            ThreadPoolExecutor(num_workers) as pool,
            Progress(f"speaking {split}", len(utterances), "words") as progress,
        ):
            for length in pool.map(write, utterances):
                seconds += length
                progress.add(1)
        write_jsonl(folder / f"{split}.jsonl", [_row(split, each, speakers) for each in utterances])
        figures[split] = {"words": count, "recordings": len(utterances), "minutes": round(seconds / 60, 1)}
    write_json(folder / "statistics.json", figures)
    return {**figures, "seconds": round(time.monotonic() - started)}


def plan(split: str, num_words: int, speakers: Sequence[str]) -> list[Utterance]:
    """Return the utterances of a split of the shipped dictionary; the same each time.

    Args:
      split: "train", "validation" or "test".
      num_words: Words to choose.
      speakers: Voices; each speaks every word, at a speed that depends on both.

    Raises:
      ValueError: The split has fewer words.
    """
    table = (shipped_directory("data") / "cmudict" / f"{split}.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in table.splitlines()[1:]]
    if num_words > len(rows):
        raise ValueError(f"the dictionary's split {split} has {len(rows):,} words, {num_words:,} are wanted")
    chosen = shuffle_by_key(rows, lambda row: row[0], seed=SEED)[:num_words]
    return [
        Utterance(word, phonemes, speaker, _speed(word, speaker))
        for word, _, phonemes in chosen
        for speaker in speakers
    ]


def _speed(word: str, speaker: str) -> int:
    return SPEEDS[hashlib.sha256(f"{SEED}:{word}:{speaker}".encode()).digest()[0] % len(SPEEDS)]


def _row(split: str, utterance: Utterance, speakers: Sequence[str]) -> dict[str, object]:
    return {
        "audio": f"{split}/{utterance.file_name}",
        "text": utterance.word,
        "phonemes": utterance.phonemes,
        "speaker": utterance.speaker,
        "voice": [int(each == utterance.speaker) for each in speakers],
        "speed": utterance.speed,
    }


def _write(folder: Path, program: str, utterance: Utterance) -> float:
    """Write an utterance, and return its seconds."""
    samples = speak(utterance, program)
    write_wav(folder / utterance.file_name, samples, SAMPLING_RATE)
    return len(samples) / SAMPLING_RATE


def speak(utterance: Utterance, program: str) -> np.ndarray:
    """Return an utterance as 16 kHz samples without the silence around it, float32 [samples].

    Args:
      utterance: Word, voice and speed.
      program: Name or path of espeak-ng.

    Raises:
      ValueError: espeak-ng fails, or says nothing.
    """
    soundfile = extra_library("soundfile", extra="speech", needed_by="audio")
    command = [program, "-v", utterance.speaker, "-s", str(utterance.speed), "--stdout", utterance.word]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode or not done.stdout:
        reason = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise ValueError(f"{' '.join(command)} failed: {reason}")
    samples, rate = soundfile.read(io.BytesIO(done.stdout), dtype="float32")
    samples = samples if rate == SAMPLING_RATE else resample(samples, rate, SAMPLING_RATE)
    sounds = np.flatnonzero(np.abs(samples) > _THRESHOLD)
    if not sounds.size:
        raise ValueError(f"{' '.join(command)} says nothing; is {utterance.speaker!r} one of its voices?")
    edge = int(_EDGE * SAMPLING_RATE)
    samples = samples[max(sounds[0] - edge, 0) : sounds[-1] + edge]
    return samples * min(1.0, _LOUDEST / float(np.abs(samples).max()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="data.prepare.spoken_words",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", required=True, metavar="FOLDER", help="folder for tables and WAV files")
    for split, count in NUM_WORDS.items():
        parser.add_argument(
            f"--{split}_words", type=int, default=count, metavar="N", help=f"words of {split} (%(default)s)"
        )
    parser.add_argument(
        "--speakers", nargs="+", default=SPEAKERS, metavar="VOICE", help=f"voices ({' '.join(SPEAKERS)})"
    )
    parser.add_argument("--program", default="espeak-ng", metavar="FILE", help="espeak-ng (%(default)s)")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (%(default)s)"
    )
    options = parser.parse_args(arguments)
    num_words = {split: getattr(options, f"{split}_words") for split in NUM_WORDS}
    try:
        figures = prepare(
            options.output,
            num_words=num_words,
            speakers=options.speakers,
            program=options.program,
            num_workers=options.workers,
        )
    except (ValueError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
