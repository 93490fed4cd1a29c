import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Metric } from "../../../src/osworld/evaluator/Metric.js"
import * as Vlc from "../../../src/osworld/evaluator/vlc.js"
import { file, fixture, json, judge, missing, text } from "./support.js"

/** What VLC 3 wrote of a configuration without changes, and said while it played tune.flac: `fixtures/media/make-apps.sh`. */
const vlcrc = readFileSync(fixture("media/vlcrc"), "utf8")
const status = readFileSync(fixture("media/status.xml"), "utf8")

/** A change in VLC's preferences takes the sign of a comment away. */
const changed = (key: string, value: string): string => {
  const lines = vlcrc.split("\n")
  const at = lines.findIndex((line) => line.startsWith(`#${key}=`))
  assert.isAtLeast(at, 0, key)
  lines[at] = `${key}=${value}`
  return lines.join("\n")
}

/** Metric, its field, VLC's setting, its default, another value, and what that is to the metric. */
const settings: ReadonlyArray<readonly [Metric, string, string, string, string, string]> = [
  [Vlc.checkQtBgcone, "expected_qt_bgcone", "qt-bgcone", "1", "0", "0"],
  [Vlc.checkQtMaxVolume, "expected_qt_max_volume", "qt-max-volume", "125", "200", "200"],
  [Vlc.checkQtMinimalView, "expected_qt_minimal_view", "qt-minimal-view", "0", "1", "1"],
  [Vlc.checkPlayAndExit, "expected_play_and_exit", "play-and-exit", "0", "1", "1"],
  [
    Vlc.checkOneInstanceWhenStartedFromFile,
    "expected_one_instance_when_started_from_file",
    "one-instance-when-started-from-file",
    "1",
    "0",
    "0"
  ],
  [Vlc.checkGlobalKeyPlayPause, "expected_global_key_play_pause", "global-key-play-pause", "0", "Ctrl+Space", "1"]
]

describe("VLC settings", () => {
  for (const [metric, field, key, byDefault, value, other] of settings) {
    it.effect(`${metric.name} reads ${key}, which is ${byDefault} unless it is set`, () =>
      Effect.gen(function* () {
        const judged = (config: string, expected: unknown, compat = false) =>
          judge(metric, text(config), json({ [field]: expected }), {}, { compat })
        const set = changed(key, value)
        for (const compat of [false, true]) {
          assert.strictEqual(yield* judged(vlcrc, byDefault, compat), 1)
          assert.strictEqual(yield* judged("", Number(byDefault), compat), 1)
          assert.strictEqual(yield* judged(vlcrc, other, compat), 0)
          assert.strictEqual(yield* judged(set, other, compat), 1)
          assert.strictEqual(yield* judged(set, Number(other), compat), 1)
          assert.strictEqual(yield* judged(set, byDefault, compat), 0)
        }
        // A comment is no setting, and no setting of a longer name is; upstream takes both.
        for (const line of [`#${key}=${value}`, `other-${key}=${value}`]) {
          assert.strictEqual(yield* judged(line, byDefault), 1)
          assert.strictEqual(yield* judged(line, other, true), 1)
        }
        // The last one counts, as it does for VLC; an empty key is none.
        const last = key === "global-key-play-pause" ? "" : byDefault
        assert.strictEqual(yield* judged(`${key}=${value}\n${key} = ${last}`, byDefault), 1)
        assert.strictEqual(yield* judge(metric, missing, json({ [field]: byDefault })), 0)
        assert.include(String(yield* judge(metric, text(vlcrc), json({ expected: 1 }))), `${field} is missing`)
        assert.include(String(yield* judge(metric, text(vlcrc), missing)), "cannot decide")
      })
    )
  }

  it.effect("check_qt_slider_colours compares colours, or wants them all nearly black", () =>
    Effect.gen(function* () {
      const judged = (config: string, rule: Record<string, unknown>) =>
        judge(Vlc.checkQtSliderColours, text(config), json(rule))
      const dark = "10;20;30;0;0;0;99;99;99;40;50;60"
      const match = { type: "match", expected_qt_slider_colours: dark }
      assert.strictEqual(yield* judged(changed("qt-slider-colours", dark), match), 1)
      assert.strictEqual(yield* judged(vlcrc, match), 0)
      assert.strictEqual(yield* judged(changed("qt-slider-colours", dark), { type: "blackish" }), 1)
      assert.strictEqual(
        yield* judged(changed("qt-slider-colours", dark.replace("99", "100")), { type: "blackish" }),
        0
      )
      assert.strictEqual(yield* judged(vlcrc, { type: "blackish" }), 0)
      assert.strictEqual(yield* judged(changed("qt-slider-colours", "black"), { type: "blackish" }), 0)
      // What upstream has for a default is VLC's.
      const usual = { type: "match", expected_qt_slider_colours: "153;210;153;20;210;20;255;199;15;245;39;29" }
      assert.include(vlcrc, `#qt-slider-colours=${usual.expected_qt_slider_colours}\n`)
      assert.strictEqual(yield* judged(vlcrc, usual), 1)
      assert.include(String(yield* judged(vlcrc, { type: "whitish" })), "cannot decide")
      assert.strictEqual(yield* judge(Vlc.checkQtSliderColours, missing, json(usual)), 0)
    })
  )

  it.effect("is_vlc_recordings_folder wants the folder, and no comment", () =>
    Effect.gen(function* () {
      const rule = json({ recording_file_path: "/home/user/Desktop" })
      const judged = (config: string) => judge(Vlc.isVlcRecordingsFolder, text(config), rule)
      assert.strictEqual(yield* judged(changed("input-record-path", "/home/user/Desktop")), 1)
      assert.strictEqual(yield* judged(changed("input-record-path", "/home/user")), 0)
      assert.strictEqual(yield* judged(vlcrc), 0)
      assert.strictEqual(yield* judged("#input-record-path=/home/user/Desktop"), 0)
      assert.strictEqual(yield* judge(Vlc.isVlcRecordingsFolder, missing, rule), 0)
      assert.include(String(yield* judge(Vlc.isVlcRecordingsFolder, text(""), json({}))), "cannot decide")
    })
  )
})

describe("VLC at work", () => {
  it.effect("is_vlc_fullscreen compares window and screen, and a window that is not there is not full", () =>
    Effect.gen(function* () {
      const size = (width: number, height: number) => json({ width, height })
      const judged = (screen: Parameters<typeof judge>[1], window: Parameters<typeof judge>[2]) =>
        judge(Vlc.isVlcFullscreen, screen, window)
      assert.strictEqual(yield* judged(size(1920, 1080), size(1920, 1080)), 1)
      assert.strictEqual(yield* judged(size(1920, 1080), size(1920, 1053)), 0)
      assert.strictEqual(yield* judged(size(1920, 1080), missing), 0)
      assert.strictEqual(yield* judged(missing, size(1920, 1080)), 0)
      assert.include(String(yield* judged(size(1920, 1080), json({ width: 1920 }))), "cannot decide")
    })
  )

  const file_name = (name: string) => json({ type: "file_name", file_name: name })
  const url = (address: string) => json({ type: "url", url: address })
  const info = (entries: Record<string, string>, state = "playing") =>
    text(
      `<root><state>${state}</state><information><category name="meta">${Object.entries(entries)
        .map(([name, value]) => `<info name='${name}'>${value}</info>`)
        .join("")}</category><category name="Stream 0"><info name='Codec'>x.m3u8</info></category></information></root>`
    )

  it.effect("is_vlc_playing knows the file that is played", () =>
    Effect.gen(function* () {
      const judged = (value: Parameters<typeof judge>[1], rule: Parameters<typeof judge>[2], compat = false) =>
        judge(Vlc.isVlcPlaying, value, rule, {}, { compat })
      assert.strictEqual(yield* judged(file(fixture("media/status.xml")), file_name("tune.flac")), 1)
      assert.strictEqual(yield* judged(text(status), file_name("other.flac")), 0)
      assert.strictEqual(yield* judged(text(status.replace(">playing<", ">paused<")), file_name("tune.flac")), 0)
      // The end of a name is another name, but to upstream.
      assert.strictEqual(yield* judged(text(status), file_name("une.flac")), 0)
      assert.strictEqual(yield* judged(text(status), file_name("une.flac"), true), 1)
      assert.strictEqual(yield* judged(info({ uri: "file:///home/user/My%20film.mp4" }), file_name("My film.mp4")), 1)
      assert.strictEqual(yield* judged(info({ location: "/home/user/a &amp; b.mp4" }), file_name("a & b.mp4")), 1)
      assert.strictEqual(yield* judged(info({}), file_name("tune.flac")), 0)
      assert.strictEqual(yield* judged(text("<root/>"), file_name("tune.flac")), 0)
      assert.strictEqual(yield* judged(text("VLC is here"), file_name("tune.flac")), 0)
      assert.strictEqual(yield* judged(missing, file_name("tune.flac")), 0)
      assert.include(String(yield* judged(text(status), json({ type: "disc" }))), "cannot decide")
    })
  )

  it.effect("is_vlc_playing knows the stream that is played", () =>
    Effect.gen(function* () {
      const address = "https://example.org/streams/adv/master.m3u8"
      const judged = (entries: Record<string, string>, compat = false) =>
        judge(Vlc.isVlcPlaying, info(entries), url(address), {}, { compat })
      assert.strictEqual(yield* judged({ url: address }), 1)
      assert.strictEqual(yield* judged({ filename: "master.m3u8" }), 1)
      assert.strictEqual(yield* judged({ location: "http://example.org/streams/adv/master.m3u8?token=1" }), 1)
      assert.strictEqual(yield* judged({ location: "https://example.net/streams/adv/master.m3u8" }), 0)
      assert.strictEqual(yield* judged({ filename: "other.m3u8" }), 0)
      assert.strictEqual(yield* judged({}), 0)
      // A stream that says its title is still at its address.
      assert.strictEqual(yield* judged({ title: "Advanced stream", filename: "master.m3u8" }), 1)
      assert.strictEqual(yield* judged({ title: "Advanced stream", filename: "master.m3u8" }, true), 0)
    })
  )
})
