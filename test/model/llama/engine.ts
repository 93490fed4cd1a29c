/** llama.cpp by way of `@fugood/node-llama-*`: of its native module, the part that the tests' server calls. */
import { createRequire } from "node:module"
import { arch, platform } from "node:process"

export interface EngineOptions {
  readonly model: string
  /** Of all sequences together. */
  readonly n_ctx: number
  readonly n_parallel: number
  readonly n_threads: number
  readonly n_gpu_layers: number
  readonly ctx_shift: boolean
}

export interface CompletionOptions {
  readonly prompt: string
  readonly n_predict: number
  readonly temperature: number
  readonly seed: number
  readonly stop: ReadonlyArray<string>
  /** How many of the likeliest tokens are told, each time. */
  readonly n_probs: number
  readonly top_k: number
  readonly top_p: number
  readonly min_p: number
  readonly xtc_probability: number
  readonly dry_multiplier: number
}

/** What it calls back with: a token each time, and at last the whole. */
export type Told =
  | {
      readonly token: string
      readonly probs: ReadonlyArray<{ readonly tok: number; readonly prob: number }>
    }
  | {
      readonly token?: undefined
      readonly text: string
      readonly stopped_word: boolean
      readonly stopped_eos: boolean
      readonly stopped_limit: boolean
      readonly context_full: boolean
      readonly tokens_predicted: number
      readonly timings: { readonly prompt_n: number }
    }

export interface Engine {
  readonly getFormattedChat: (
    messages: ReadonlyArray<{ readonly role: string; readonly content: string }>,
    template: undefined,
    options: { readonly jinja: boolean; readonly add_generation_prompt: boolean }
  ) => string | { readonly prompt: string }
  readonly tokenize: (text: string) => Promise<{ readonly tokens: Int32Array }>
  readonly detokenize: (tokens: ReadonlyArray<number>) => Promise<string>
  readonly enableParallelMode: (options: { readonly n_parallel: number; readonly n_batch: number }) => boolean
  readonly queueCompletion: (
    options: CompletionOptions,
    callback: (error: unknown, told: Told) => void
  ) => { readonly requestId: number }
  readonly cancelRequest: (requestId: number) => void
}

const name = `@fugood/node-llama-${platform}-${arch}`

const require = createRequire(import.meta.url)

/** Whether there is a build of it for this machine. On Linux with an x64 processor there always is. */
export const isBuilt: boolean =
  (platform === "linux" && arch === "x64") ||
  (platform === "linux" && arch === "arm64") ||
  (platform === "darwin" && arch === "arm64")

export const open = (options: EngineOptions): Engine => {
  const native: { readonly LlamaContext: new (options: EngineOptions) => Engine } = require(name)
  return new native.LlamaContext(options)
}
