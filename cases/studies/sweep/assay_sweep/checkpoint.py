"""The computed models as a folder that engines load as a Llama checkpoint of Hugging Face: config.json,
model.safetensors, and a tokenizer in which each token is a word.

A head's channels stand in another order there. GGUF turns channels 2 i and 2 i + 1 together by angle i, a
checkpoint channels i and i + HEAD / 2 (`rotate_half` of transformers' modeling_llama.py): rows of q and k go
0, 2, ..., 126, 1, 3, ..., 127. A score is a sum over pairs of channels, so that any order does which q and k
share and which keeps the pairs; v and o are as they are. rope_freqs becomes the factors of `longrope`, which
divide the same frequencies base^(-2 i / HEAD), with attention_factor 1: no other scale. The short and the
long ones are alike and the original length is the longest, so that no engine changes them as a text grows.
"""
import json
import os

import numpy as np
from assay.tensors import plane_of, write_planes

LONGEST = 1 << 17  # engines tabulate a sine and a cosine for each channel and position up to here: 128 MB in f32
NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
         "output.weight": "lm_head.weight"}
PARTS = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj"}


def halves(rows, head):
    """Rows [heads * head, in] with each head's even channels in front of its odd ones."""
    by_head = rows.reshape(-1, head, rows.shape[1])
    return np.concatenate([by_head[:, 0::2], by_head[:, 1::2]], axis=1).reshape(rows.shape)


def tensors(named, head):
    """{name in a checkpoint: f32 array} of what models.tensors names as GGUF does; the divisors are
    config's."""
    found = {}
    for name, array in named:
        if name == "rope_freqs.weight":
            continue
        if name in NAMES:
            found[NAMES[name]] = array.astype("<f4")
        else:
            _, layer, part, _ = name.split(".")
            array = halves(array, head) if part in ("attn_q", "attn_k") else array
            found[f"model.layers.{layer}.{PARTS[part]}.weight"] = array.astype("<f4")
    return found


def config(metadata, divisors):
    """config.json, by the metadata of the GGUF. Numbers of the divisors are those of f32, as rope_freqs has
    them."""
    given = {key: value for key, _, value in metadata}
    factors = [float(np.float32(x)) for x in divisors]
    llama = {name: given[f"llama.{key}"] for name, key in (
        ("hidden_size", "embedding_length"), ("intermediate_size", "feed_forward_length"),
        ("num_hidden_layers", "block_count"),
        ("num_attention_heads", "attention.head_count"), ("num_key_value_heads", "attention.head_count_kv"),
        ("head_dim", "attention.key_length"), ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
        ("rope_theta", "rope.freq_base"),
        ("vocab_size", "vocab_size"))}
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **llama,
            "max_position_embeddings": LONGEST,
            "rope_scaling": {"rope_type": "longrope", "short_factor": factors, "long_factor": factors,
                             "factor": 1.0,
                             "attention_factor": 1.0, "original_max_position_embeddings": LONGEST},
            "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False,
            "torch_dtype": "float32",
            "bos_token_id": 1, "eos_token_id": 2, "unk_token_id": 0}


def tokenizer(texts):
    """tokenizer.json: a token is a word between spaces. Prompts are token ids; this is for an engine's
    answers, and its start."""
    return {"version": "1.0", "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
            "decoder": None,
            "model": {"type": "WordLevel", "unk_token": "<unk>",
                      "vocab": {text: i for i, text in enumerate(texts)}}}


def write(folder, metadata, named, texts):
    """The four files, into a folder that is there."""
    head = dict((key, value) for key, _, value in metadata)["llama.attention.key_length"]
    for name, content in (("config.json", config(metadata, dict(named)["rope_freqs.weight"])),
                          ("tokenizer.json", tokenizer(texts)),
                          ("tokenizer_config.json",
                           {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>",
                                                     "bos_token": "<s>", "eos_token": "</s>"})):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file)
    planes = {name: plane_of(array) for name, array in tensors(named, head).items()}
    write_planes(os.path.join(folder, "model.safetensors"), planes, {"format": "pt"})
