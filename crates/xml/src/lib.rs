//! Streaming tokenizer and stanza framer with limits: bytes in, frames out.
