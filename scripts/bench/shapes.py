"""Shapes of Llamas that measurements on a GPU draw: hidden, intermediate, layers, heads, key/value heads, vocabulary, positions."""
SHAPES = {
    "tiny": (64, 160, 2, 4, 2, 512, 1024),
    "vicuna-7b": (4096, 11008, 32, 32, 32, 32000, 4096),
    "llama-3-8b": (4096, 14336, 32, 32, 8, 128256, 8192),
}


def config(shape):
    from transformers import LlamaConfig

    hidden, intermediate, layers, heads, kv_heads, vocab, positions = SHAPES[shape]
    return LlamaConfig(
        hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, vocab_size=vocab, max_position_embeddings=positions, tie_word_embeddings=False,
    )
