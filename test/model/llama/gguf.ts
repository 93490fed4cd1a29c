/**
 * A language model of half a megabyte that knows nothing: the architecture of Llama, weights from a seeded generator, a
 * byte-level vocabulary with a few merges, ChatML for a template. An inference server loads it like any other.
 *
 * Layout after the specification of GGUF version 3 (github.com/ggml-org/ggml, docs/gguf.md).
 */

/** `ggml`'s types of metadata. */
const uint32 = 4
const int32 = 5
const float32 = 6
const bool = 7
const string = 8
const array = 9

type Value =
  | { readonly type: typeof uint32 | typeof int32 | typeof float32; readonly value: number }
  | { readonly type: typeof bool; readonly value: boolean }
  | { readonly type: typeof string; readonly value: string }
  | { readonly type: typeof array; readonly of: typeof string; readonly value: ReadonlyArray<string> }
  | { readonly type: typeof array; readonly of: typeof int32; readonly value: ReadonlyArray<number> }

interface Tensor {
  readonly name: string
  /** Fastest first: a matrix that maps 64 numbers to 128 is `[64, 128]`. */
  readonly shape: ReadonlyArray<number>
  readonly data: Float32Array
}

const u32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

const i32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32LE(value)
  return bytes
}

const u64 = (value: number) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

const f32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeFloatLE(value)
  return bytes
}

const text = (value: string) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)])

const encoded = (one: Value): Buffer => {
  switch (one.type) {
    case uint32:
      return u32(one.value)
    case int32:
      return i32(one.value)
    case float32:
      return f32(one.value)
    case bool:
      return Buffer.from([one.value ? 1 : 0])
    case string:
      return text(one.value)
    case array:
      return Buffer.concat([
        u32(one.of),
        u64(one.value.length),
        ...(one.of === string ? one.value.map(text) : one.value.map(i32))
      ])
  }
}

const alignment = 32

const padding = (length: number) => Buffer.alloc((alignment - (length % alignment)) % alignment)

const write = (metadata: Readonly<Record<string, Value>>, tensors: ReadonlyArray<Tensor>): Buffer => {
  const entries = Object.entries(metadata)
  let offset = 0
  const infos = tensors.map(({ data, name, shape }) => {
    // The 0 says that its numbers are 32-bit floats.
    const info = [text(name), u32(shape.length), ...shape.map(u64), u32(0), u64(offset)]
    offset += data.byteLength + padding(data.byteLength).length
    return Buffer.concat(info)
  })
  const head = Buffer.concat([
    Buffer.from("GGUF"),
    u32(3),
    u64(tensors.length),
    u64(entries.length),
    ...entries.flatMap(([key, value]) => [text(key), u32(value.type), encoded(value)]),
    ...infos
  ])
  return Buffer.concat([
    head,
    padding(head.length),
    ...tensors.flatMap(({ data }) => [
      Buffer.from(data.buffer, data.byteOffset, data.byteLength),
      padding(data.byteLength)
    ])
  ])
}

/** The characters by which GPT-2's vocabulary writes bytes: printable ones by themselves, others from U+0100 on. */
const byteCharacters: ReadonlyArray<string> = (() => {
  let next = 0x100
  return Array.from({ length: 256 }, (_, byte) => {
    const itself = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae
    return String.fromCodePoint(itself ? byte : next++)
  })
})()

/** Pairs that the tokenizer joins, first come first joined. A model that does not know them writes them apart. */
const merges = ["t h", "th e", "i n", "e r", "a n", "o n"]

export const tokens: ReadonlyArray<string> = [
  ...byteCharacters,
  ...merges.map((pair) => pair.replace(" ", "")),
  "<|im_start|>",
  "<|im_end|>"
]

export const endOfTurn = tokens.length - 1

const startOfTurn = tokens.length - 2

/** What a token is a part of when it is written, byte by byte. */
export const bytesOf = (token: number): Uint8Array => {
  const name = tokens[token] ?? ""
  return token >= startOfTurn
    ? Buffer.from(name)
    : Uint8Array.from([...name].map((character) => byteCharacters.indexOf(character)))
}

const template = [
  "{%- for message in messages -%}",
  "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}",
  "{%- endfor -%}",
  "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
].join("")

/** Numbers between 0 and 1, the same for the same seed (xorshift32, Marsaglia 2003). */
const uniform = (seed: number) => {
  let state = seed | 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

const width = 64
const inner = 128
const heads = 4
const layers = 2
/** Tokens that the model says it was trained for. */
export const contextLength = 512

/**
 * The file's bytes. What the model writes is printable ASCII, and it never ends by itself: its first number is the same
 * whatever it reads, and the last layer turns it against all other tokens.
 */
export const tinyModel = (seed = 1): Buffer => {
  const random = uniform(seed)
  const matrix = (name: string, rows: number, columns: number, scale = Math.sqrt(3 / columns)): Tensor => ({
    name,
    shape: [columns, rows],
    data: Float32Array.from({ length: rows * columns }, () => (random() * 2 - 1) * scale)
  })
  const ones = (name: string): Tensor => ({ name, shape: [width], data: new Float32Array(width).fill(1) })
  /** With these values in the first column, or in the first row. */
  const firstColumn = (tensor: Tensor, value: (row: number) => number): Tensor => {
    for (let row = 0; row < tensor.data.length / width; row++) tensor.data[row * width] = value(row)
    return tensor
  }
  const firstRowZero = (tensor: Tensor, columns: number): Tensor => {
    tensor.data.fill(0, 0, columns)
    return tensor
  }
  const printable = (token: number) => token >= 0x20 && token < 0x7f
  const layer = (index: number): ReadonlyArray<Tensor> => {
    const name = (part: string) => `blk.${index}.${part}.weight`
    return [
      ones(name("attn_norm")),
      matrix(name("attn_q"), width, width),
      matrix(name("attn_k"), width, width),
      matrix(name("attn_v"), width, width),
      firstRowZero(matrix(name("attn_output"), width, width), width),
      ones(name("ffn_norm")),
      matrix(name("ffn_gate"), inner, width),
      matrix(name("ffn_up"), inner, width),
      firstRowZero(matrix(name("ffn_down"), width, inner), inner)
    ]
  }
  return write(
    {
      "general.architecture": { type: string, value: "llama" },
      "general.name": { type: string, value: "tiny-random" },
      "llama.context_length": { type: uint32, value: contextLength },
      "llama.embedding_length": { type: uint32, value: width },
      "llama.block_count": { type: uint32, value: layers },
      "llama.feed_forward_length": { type: uint32, value: inner },
      "llama.attention.head_count": { type: uint32, value: heads },
      "llama.attention.head_count_kv": { type: uint32, value: heads },
      "llama.attention.layer_norm_rms_epsilon": { type: float32, value: 1e-5 },
      "llama.rope.dimension_count": { type: uint32, value: width / heads },
      "llama.vocab_size": { type: uint32, value: tokens.length },
      "tokenizer.ggml.model": { type: string, value: "gpt2" },
      "tokenizer.ggml.pre": { type: string, value: "gpt-2" },
      "tokenizer.ggml.tokens": { type: array, of: string, value: tokens },
      // 3 says that a token is control, 1 that it is text.
      "tokenizer.ggml.token_type": {
        type: array,
        of: int32,
        value: tokens.map((_, id) => (id >= startOfTurn ? 3 : 1))
      },
      "tokenizer.ggml.merges": { type: array, of: string, value: merges },
      "tokenizer.ggml.bos_token_id": { type: uint32, value: startOfTurn },
      "tokenizer.ggml.eos_token_id": { type: uint32, value: endOfTurn },
      "tokenizer.ggml.add_bos_token": { type: bool, value: false },
      "tokenizer.chat_template": { type: string, value: template }
    },
    [
      firstColumn(matrix("token_embd.weight", tokens.length, width, 1), () => 2),
      ...Array.from({ length: layers }, (_, index) => layer(index)).flat(),
      ones("output_norm.weight"),
      firstColumn(matrix("output.weight", tokens.length, width, 0.4), (token) => (printable(token) ? 8 : -8))
    ]
  )
}
