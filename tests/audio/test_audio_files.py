import re
import struct
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from t5x_like.audio.audio_files import read_audio, read_header, resample, write_wav
from t5x_like.audio.audio_options import AudioOptions
from t5x_like.audio.sample_checks import count_clipped
from tests.audio.conftest import sine


@pytest.mark.parametrize("name", ["tone.wav", "tone.flac"])
def test_wav_and_flac_are_read_as_float_samples(write, tone, name):
    waveform = read_audio(write(name, tone))
    assert waveform.samples.dtype == np.float32
    assert waveform.samples == pytest.approx(tone, abs=1 / 32_768)
    assert (waveform.sampling_rate, waveform.seconds, waveform.warnings) == (16_000, 1.0, ())


def test_a_header_is_read_without_the_samples(write, tone):
    header = read_header(write("tone.flac", tone))
    assert (header.seconds, header.num_channels, header.format) == (1.0, 1, "FLAC PCM_16")


def test_written_samples_are_read_again(tmp_path, tone):
    write_wav(tmp_path / "tone.wav", tone, 16_000)
    assert read_audio(tmp_path / "tone.wav").samples == pytest.approx(tone, abs=1 / 32_768)


def test_two_channels_are_refused_until_their_mean_is_wanted(write, tone):
    file = write("both.wav", np.stack([tone, 0.5 * tone], axis=1))
    with pytest.raises(ValueError, match=r"both.wav has 2 channels, and one is needed; set channels='mean'"):
        read_audio(file)
    samples = read_audio(file, AudioOptions(channels="mean")).samples
    assert samples == pytest.approx(0.75 * tone, abs=1e-4)


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_other_rates_are_resampled_with_a_warning(write, caplog, rate):
    file = write("tone.wav", sine(440, rate=rate), rate)
    samples = read_audio(file).samples
    assert f"tone.wav: it was resampled from {rate:,} to 16,000 Hz" in caplog.text
    assert len(samples) == 16_000
    inner = slice(1_000, -1_000)  # the filter has no samples beyond the ends
    assert samples[inner] == pytest.approx(sine(440)[inner], abs=1e-3)


def test_frequencies_that_the_lower_rate_cannot_hold_are_removed():
    samples = resample(sine(10_000, rate=44_100), 44_100, 16_000)
    assert np.abs(samples[1_000:-1_000]).max() < 1e-3


def test_other_rates_are_refused_where_resampling_is_off(write):
    file = write("tone.wav", sine(440, rate=8_000), 8_000)
    with pytest.raises(ValueError, match=r"8,000 samples per second, 16,000 are needed; set resample=True"):
        read_header(file, AudioOptions(resample=False))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; fetch or record it again"),
        (
            b"ID3\x03" + bytes(500),
            r"no WAV or FLAC file, it begins with b'ID3\\x03'; if it is audio, convert",
        ),
        (b"a text of some words", "no WAV or FLAC file"),
        (b"RIFF\x00\x00\x00\x00WAVE", "is damaged or cut short"),
        (b"fLaC" + bytes(3), "is damaged or cut short"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path, content, message):
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.wav {message}|a\.wav is {message}"):
        read_audio(tmp_path / "a.wav")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none\.wav is no file; give the path of a WAV or FLAC file"):
        read_audio(tmp_path / "none.wav")


def test_a_file_without_samples_is_refused(write):
    with pytest.raises(ValueError, match=r"none\.wav has a header and no sample"):
        read_header(write("none.wav", np.zeros(0, np.float32)))


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
@pytest.mark.parametrize("name", ["cut.wav", "cut.flac"])
def test_a_cut_file_is_refused(write, tone, name, share):
    file = write(name, tone)
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match=rf"{name} is (cut short|damaged or cut short)"):
        read_audio(file)


def test_a_cut_wav_file_says_how_much_is_missing(write, tone):
    file = write("cut.wav", tone)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="100 bytes of its samples are missing"):
        read_header(file)


def test_a_cut_file_with_64_bit_sizes_is_refused(tmp_path, tone):
    file = tmp_path / "long.wav"
    soundfile.write(file, tone, 16_000, format="RF64", subtype="PCM_16")
    assert read_header(file).seconds == 1.0
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="100 bytes of its samples are missing"):
        read_header(file)


def test_a_wav_file_from_a_pipe_has_the_length_of_its_samples(write, tone):
    file = write("pipe.wav", tone)
    content = bytearray(file.read_bytes())
    content[4:8] = content[40:44] = struct.pack("<I", 0x7FFF_F000)
    file.write_bytes(content)
    assert read_audio(file).seconds == 1.0


def test_a_damaged_flac_frame_is_refused(write, tone):
    file = write("a.flac", tone)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.flac is damaged or cut short"):
        read_audio(file)


def test_a_flac_file_of_unknown_length_is_refused(write, tone):
    file = write("a.flac", tone)
    content = bytearray(file.read_bytes())
    content[21] &= 0xF0  # 36 bits of the number of samples
    content[22:26] = bytes(4)
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.flac doesn't say how long it is"):
        read_header(file)


def test_another_format_is_refused(tmp_path, tone):
    soundfile.write(tmp_path / "a.ogg", tone, 16_000)
    with pytest.raises(
        ValueError, match=r"a\.ogg is a file of format OGG; WAV and FLAC are read: convert it"
    ):
        read_audio(tmp_path / "a.ogg")


def test_a_file_over_the_longest_is_refused(write, tone):
    with pytest.raises(ValueError, match=r"has 1\.0 seconds; at most max_seconds=0\.5 are read"):
        read_header(write("a.wav", tone), AudioOptions(max_seconds=0.5))


def test_silence_is_refused_until_it_is_allowed(write, caplog):
    file = write("a.wav", np.full(1_000, 5e-4, np.float32))
    with pytest.raises(ValueError, match=r"a\.wav: it is silent: .*silence='warn'"):
        read_audio(file)
    read_audio(file, AudioOptions(silence="warn"))
    assert re.search(r"a\.wav: it is silent", caplog.text)


def test_clipped_samples_are_counted(write, caplog, tone):
    loud = np.clip(4 * tone, -1, 1)
    read_audio(write("loud.wav", loud))
    assert re.search(r"loud\.wav: 10,\d+ samples \(6\d\.\d+%\) are clipped at full scale", caplog.text)


def test_three_equal_samples_at_full_scale_are_clipped_and_two_are_not():
    samples_TC = np.array([[1, 0.5], [1, 1], [1, 1], [0.9, -1], [0.9, -1], [0.9, -1], [1, -1]], np.float32)
    assert count_clipped(samples_TC) == 3 + 4
    assert count_clipped(samples_TC[:2]) == 0


def test_a_peak_at_full_scale_is_not_clipped(write, caplog):
    read_audio(write("peak.wav", sine(440, peak=1.0)))
    assert "clipped" not in caplog.text


def test_samples_beyond_full_scale_are_noted(write, tone, caplog):
    read_audio(write("float.wav", 4 * tone, subtype="FLOAT"))
    assert "samples reach 2.00, beyond the full scale of 1" in caplog.text


def test_samples_that_are_no_numbers_are_refused(write, tone):
    tone[7] = np.nan
    with pytest.raises(ValueError, match=r"float\.wav: 1 of its samples are no finite numbers"):
        read_audio(write("float.wav", tone, subtype="FLOAT"))


def test_loud_samples_are_clipped_when_written(tmp_path, caplog):
    write_wav(tmp_path / "a.wav", np.array([2.0, -2.0, 0.25]), 16_000)
    assert "samples up to 2.00 are clipped to 1" in caplog.text
    assert read_audio(tmp_path / "a.wav").samples == pytest.approx([1, -1, 0.25], abs=1e-4)


@pytest.mark.parametrize("samples", [np.zeros(0), np.zeros((4, 2)), np.array([np.nan])])
def test_no_file_is_written_of_samples_that_are_none(tmp_path, samples):
    with pytest.raises(ValueError, match="one dimension of finite samples"):
        write_wav(tmp_path / "a.wav", samples, 16_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [({"sampling_rate": 0}, "SpeechT5 needs 16000"), ({"max_seconds": 0.0}, "positive")],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AudioOptions(**options)


def test_a_missing_library_says_which_extra_brings_it(write, tone):
    program = (
        "import sys; sys.modules['soundfile'] = None\n"
        "from t5x_like.audio.audio_files import read_audio\n"
        f"try:\n    read_audio({str(write('a.wav', tone))!r})\n"
        "except ValueError as error:\n    print(error)\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert output == (
        "audio needs the library soundfile, which isn't installed: pip install 't5x-like[speech]'\n"
    )
