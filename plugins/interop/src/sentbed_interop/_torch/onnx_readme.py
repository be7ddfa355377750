"""Documentation of a graph: a README with code that encodes texts."""

from __future__ import annotations

from pathlib import Path

from sentbed import Encoder, ModelError
from sentbed.errors import listed
from sentbed.helpers import write_atomic
from sentbed.protocols import MASK

from sentbed_interop.similarity_names import similarity_name

README = """\
# {title}

A sentence encoder for [onnxruntime](https://onnxruntime.ai). `model.onnx` takes `input_ids` and
`attention_mask`, int64 `(batch, length)`, padded on the right, and gives `sentence_embedding`, fp32
`(batch, {width})`. {norm} Where there is a file `model.onnx.data`, it has the weights and must stay
beside the graph.

```python
import numpy
import onnxruntime
from tokenizers import Tokenizer
{prompt}
tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.{truncation}
session = onnxruntime.InferenceSession("model.onnx")

texts = ["The cat sat on the mat.", "A dog barks."]
tokens = tokenizer.encode_batch({texts}{special})
ids, mask = ([getattr(t, key) for t in tokens] for key in ("ids", "attention_mask"))
vectors = session.run(None, {{"input_ids": numpy.array(ids), "attention_mask": numpy.array(mask)}})[0]
```
"""

PROMPT = """

def prompt(text):
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    if len(offsets) > {max_length}:
        text = text[: offsets[{max_length}][0]].rstrip()
{rules}    return ({prefix!r} + text + {suffix!r}).strip()

"""

RULES = {
    "none": "",
    "prompt-eol": """\
    if text and text[-1] not in ".?\\"'":
        text += "."
    text = text.replace('"', "'")
    if text.endswith("?"):
        text = text[:-1] + "."
""",
}
"""Name of the rules by which a prompt changes each text -> their code in the README's function `prompt`."""


def require_known_rules(encoder: Encoder) -> None:
    """Raise `ModelError` if the README cannot show the text rules of the encoder's prompt."""
    prompt = encoder.recipe.resolved_prompt
    if prompt is not None and prompt.normalizer not in RULES:
        raise ModelError(
            f"the prompt has the text rules `{prompt.normalizer}`, and the README beside the graph shows only "
            f"{listed(RULES)}; use the encoder in sentbed"
        )


def write_readme(encoder: Encoder, directory: Path) -> None:
    """Write the README with code that encodes texts."""
    recipe, tokenizer = encoder.recipe, encoder.backbone.tokenizer
    resolved = recipe.resolved_prompt
    padding = f"enable_padding(pad_id={tokenizer.pad_id})"
    if resolved is None:
        prompt = ""
        truncation = f"enable_truncation({recipe.max_length})\ntokenizer.{padding}"
        texts = "texts"
    else:
        prompt = PROMPT.format(
            max_length=recipe.max_length,
            rules=RULES[resolved.normalizer],
            prefix=resolved.template.prefix,
            suffix=resolved.template.suffix.replace(MASK, tokenizer.mask_token or MASK),
        )
        # The function `prompt` truncates the sentence. The tokenizer must not truncate its template.
        truncation = padding
        texts = "[prompt(text) for text in texts]"

    special = ""
    if not adds_special_tokens(encoder):
        special = ", add_special_tokens=False"

    norm = "Vectors are not normalised."
    if recipe.head.normalize:
        norm = "Vectors have length 1."
    norm += f" They are compared by the similarity `{similarity_name(encoder)}`."

    content = README.format(
        title=f"`{recipe.backbone.name}`, pooler `{recipe.pooler.name}`",
        width=encoder.width,
        norm=norm,
        prompt=prompt,
        truncation=truncation,
        texts=texts,
        special=special,
    )
    write_atomic(directory / "README.md", content)


def adds_special_tokens(encoder: Encoder) -> bool:
    """Return whether special tokens are put around each text; by default, the backbone `static` has none."""
    return bool(getattr(encoder.backbone.tokenizer, "special_tokens", True))
