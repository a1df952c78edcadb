from __future__ import annotations

from pathlib import Path

import transformers

from benchmarks.engines.verl.cpu.tokenizer import write_tokenizer
from benchmarks.tasks import TASKS
from benchmarks.tasks.modular_chain import EOS, PAD, VOCABULARY, decode


def test_prompts_keep_their_token_ids_and_verl_finds_what_it_insists_on(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, VOCABULARY, eos=EOS, pad=PAD, max_length=256)
    # trust_remote_code as verl's reward worker asks for it
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, trust_remote_code=True)
    for index in range(20):
        prompt = TASKS["steady"].training_prompt(0, index, 0.0)
        message = {"role": "user", "content": " ".join(decode(prompt.tokens))}
        text = tokenizer.apply_chat_template([message], add_generation_prompt=True, tokenize=False)
        assert tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) == prompt.tokens
    assert tokenizer.encode("\n", add_special_tokens=False) == [len(VOCABULARY)]
    assert tokenizer.convert_tokens_to_ids("<|im_end|>") == len(VOCABULARY) + 1
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (EOS, PAD)
