import * as Config from "effect/Config"

/** Where this program keeps what it may lose. */
export const cacheFolder = Config.string("XDG_CACHE_HOME").pipe(
  Config.orElse(() => Config.map(Config.string("HOME"), (home) => `${home}/.cache`)),
  Config.withDefault(".cache"),
  Config.map((cache) => `${cache}/deskhand`)
)
