# SPDX-License-Identifier: Apache-2.0
"""Token ids against the reference implementations, which are given the model file's own vocabulary.

SmolLM2's byte-level BPE against Hugging Face tokenizers, Gemma's pieces against SentencePiece; and every text must come
back from its ids. Needs the packages tokenizers, sentencepiece and protobuf.
"""

import json
import random
import unicodedata
from pathlib import Path

import pytest
from gguf_keys import read_keys
from postern import Library

ROOT = Path(__file__).resolve().parents[2]
EVAL = ROOT.parent / "shared" / "eval"
MARKER = "\u2581"
UNKNOWN, CONTROL, USER_DEFINED, BYTE = 2, 3, 4, 6
N_RANDOM = 10000


class Subject:
    """A model of ours beside the reference for its vocabulary."""

    def __init__(self, library, path, make_reference):
        keys = read_keys(path)
        self.vocabulary = {
            name: keys.get("tokenizer.ggml." + name)
            for name in ("tokens", "scores", "token_type", "merges", "unknown_token_id", "bos_token_id", "eos_token_id")
        }
        self.model = library.open(path)
        self.reference = make_reference(self.vocabulary)

    def check(self, texts):
        n_texts = 0
        for name, text in texts:
            ids = self.model.tokenize(text)
            expected = self.reference(text)
            if ids != expected:
                at = next((i for i, (a, b) in enumerate(zip(ids, expected)) if a != b), min(len(ids), len(expected)))
                before = self.model.detokenize(ids[max(0, at - 8) : at])
                pytest.fail(f"{name}: token {at}, after {before!r}: {ids[at : at + 4]}, expected {expected[at : at + 4]}")
            back = self.model.detokenize(ids, with_control=True)
            assert back == self.comes_back(text), f"{name}: the text does not come back"
            n_texts += 1
        assert n_texts > 0


class ByteLevel(Subject):
    def __init__(self, library, path):
        super().__init__(library, path, self.make_reference)

    def make_reference(self, vocabulary):
        tokenizers = pytest.importorskip("tokenizers")
        before = tokenizers.pre_tokenizers
        ids = {token.decode(): i for i, token in enumerate(vocabulary["tokens"])}
        merges = [tuple(merge.decode().split(" ")) for merge in vocabulary["merges"]]
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=ids, merges=merges))
        tokenizer.pre_tokenizer = before.Sequence(
            [before.Digits(individual_digits=True), before.ByteLevel(add_prefix_space=False, use_regex=True)]
        )
        alphabet = before.ByteLevel.alphabet()
        spelled = {spelling: byte for byte, spelling in self.spellings(alphabet).items()}
        self.missing = bytes(byte for spelling, byte in spelled.items() if spelling not in ids)
        return lambda text: tokenizer.encode(text, add_special_tokens=False).ids

    @staticmethod
    def spellings(alphabet):
        """GPT-2's spelling of each byte: itself when it is printable in Latin-1, else the next of U+0100 and up."""
        others = iter(sorted(char for char in alphabet if ord(char) >= 256))
        return {byte: chr(byte) if chr(byte) in alphabet else next(others) for byte in range(256)}

    def comes_back(self, text):
        """The vocabulary lacks some control characters; they are left out."""
        return text.encode().translate(None, self.missing)


class Pieces(Subject):
    def __init__(self, library, path):
        super().__init__(library, path, self.make_reference)

    @staticmethod
    def make_reference(vocabulary):
        sentencepiece = pytest.importorskip("sentencepiece")
        proto = pytest.importorskip("sentencepiece.sentencepiece_model_pb2").ModelProto()
        for i, (piece, score, kind) in enumerate(
            zip(vocabulary["tokens"], vocabulary["scores"], vocabulary["token_type"])
        ):
            text = piece.decode()
            if kind == USER_DEFINED:  # the file spells their spaces out, SentencePiece normalises the text first
                text = text.replace(" ", MARKER)
            kind = UNKNOWN if i == vocabulary["unknown_token_id"] else kind
            proto.pieces.add(piece=text, score=score, type=kind)
        trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
        trainer.model_type = trainer.BPE
        trainer.byte_fallback = True
        trainer.unk_id = vocabulary["unknown_token_id"]
        trainer.bos_id = vocabulary["bos_token_id"]
        trainer.eos_id = vocabulary["eos_token_id"]
        trainer.pad_id = -1
        normalizer.name = "identity"
        normalizer.add_dummy_prefix = False
        normalizer.remove_extra_whitespaces = False
        normalizer.escape_whitespaces = True
        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(proto.SerializeToString())
        return processor.EncodeAsIds

    @staticmethod
    def comes_back(text):
        """A marker that the text itself holds is a space."""
        return text.replace(MARKER, " ").encode()


@pytest.fixture(scope="session")
def library(postern_lib):
    return Library(postern_lib)


@pytest.fixture(scope="session")
def byte_level(library, smollm2):
    return ByteLevel(library, smollm2)


@pytest.fixture(scope="session")
def pieces(library, gemma3):
    return Pieces(library, gemma3)


@pytest.fixture(params=["byte_level", "pieces"])
def subject(request):
    return request.getfixturevalue(request.param)


def read_text(path):
    return path.read_bytes().decode("utf-8")


def naughty_strings():
    return json.loads(read_text(EVAL / "robust" / "naughty_strings.json"))


def random_texts():
    """Texts of many kinds. Only characters that this Python's Unicode knows: the newest are classified by none of the
    regular expression engines alike."""
    rng = random.Random(20240601)
    assigned = [chr(i) for i in range(0x110000) if unicodedata.category(chr(i)) not in ("Cn", "Cs", "Co")]
    alphabets = [
        list(" \t\n\r\u00a0\u3000\u2003\u2028\u0085\u180e\u200b\x0b\x0c\x1c\x1fab1"),
        list("0123456789\u0663\u096a\u00bd\u2167\u00b2a .,"),
        list("'sStTreREveVEmMlLLdD \u017f"),
        [chr(i) for i in range(0x21)] + ["a", "b"],
        list("\u4f60\u597d\u4e16\u754c\u3002\uff0c\u3042\u30a2\ud55c\uad6d\u041f\u0440\u0627\u0644\u05e2\u0e44\u0e17\u0939\u093f \n"),
        list("abcdefghijklmnopqrstuvwxyzABCDEF     \n_-(){};=\""),
        ["<", ">", "/", "<b>", "</b>", "<code>", "<h1>", "<unused1>", "<bos>", "<eos>", "<|im_end|>", "<|im_start|>"]
        + [" ", "  ", "\n", "\n\n", "\t", MARKER, MARKER * 2, "[multimodal]"],
        ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd"]
        + ["\U0010ffff", "\ufffd", "\u00e9", "e\u0301", " ", "a"],
    ]
    for i in range(N_RANDOM):
        alphabet = list(rng.choice(alphabets))
        if rng.random() < 0.3:
            alphabet += rng.choice(alphabets)
        if rng.random() < 0.2:
            alphabet += rng.choices(assigned, k=40)
        units = rng.choices(alphabet, k=rng.randrange(1, 60))
        yield f"random {i}", "".join(u * (rng.choice((2, 5, 30)) if rng.random() < 0.1 else 1) for u in units)


def test_multilingual(subject):
    text = read_text(ROOT / "tests/golden/multilingual.txt")
    subject.check([("multilingual.txt", text)])
    subject.check((f"line {i + 1}", line) for i, line in enumerate(text.splitlines(keepends=True)))


def test_random_strings(subject):
    subject.check(random_texts())


def test_source_code(subject):
    files = sorted((ROOT / "src").rglob("*.[ch]")) + sorted((ROOT / "tests").rglob("*.py"))
    subject.check((str(path.relative_to(ROOT)), read_text(path)) for path in files)
    subject.check((path.name, read_text(path)) for path in sorted(Path(json.__file__).parent.glob("*.py")))


def test_evaluation_texts(subject):
    if not EVAL.is_dir():
        pytest.skip("there is no ../shared/eval")
    files = sorted(path for path in EVAL.rglob("*") if path.is_file())
    subject.check((str(path.relative_to(EVAL)), read_text(path)) for path in files)


def test_naughty_strings(subject):
    if not EVAL.is_dir():
        pytest.skip("there is no ../shared/eval")
    subject.check((f"naughty string {i}", text) for i, text in enumerate(naughty_strings()))


@pytest.mark.parametrize(
    "unit, count, end",
    [("A", 131072, ""), (" ", 131072, ""), (" ", 131072, "x"), ("\u597d", 50000, ""), ("us", 50000, "")],
)
def test_long_runs(subject, unit, count, end):
    subject.check([(f"{count} times {unit!r}", unit * count + end)])


def test_bytes_that_are_not_utf8(pieces):
    """SentencePiece makes U+FFFD of them; here they keep their value."""
    for text in (b"\xff", b"a\xc3", b"\x80\x80 b", b"\xed\xa0\xbd", bytes(range(256))):
        ids = pieces.model.tokenize(text)
        assert pieces.model.detokenize(ids) == text


def test_control_tokens_only_when_asked_for(byte_level, pieces):
    for subject, control, token in ((byte_level, "<|im_end|>", b"<|im_end|>"), (pieces, "<bos>", b"<bos>")):
        id = subject.vocabulary["tokens"].index(token)
        assert subject.model.tokenize(control, control=True) == [id]
        assert id not in subject.model.tokenize(control)
        assert subject.model.detokenize([id]) == b""
        assert subject.model.detokenize([id], with_control=True) == token


def test_bos_comes_once(byte_level, pieces):
    bos = pieces.vocabulary["bos_token_id"]
    assert pieces.model.tokenize("", bos=True) == [bos]
    assert pieces.model.tokenize("a", bos=True)[0] == bos
    once = pieces.model.tokenize("<bos>a", bos=True, control=True)
    assert once == pieces.model.tokenize("a", bos=True)
    assert byte_level.model.tokenize("a", bos=True) == byte_level.model.tokenize("a"), "SmolLM2 wants none"
