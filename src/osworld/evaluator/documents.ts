/**
 * The metrics of word-processor documents (.docx, .odt).
 *
 * @since 0.1.0
 */
import * as Images from "./documentImages.js"
import * as Layout from "./documentLayout.js"
import * as Style from "./documentStyle.js"
import * as Text from "./documentText.js"
import type { Metric } from "./Metric.js"

/**
 * The metrics of this module, for the registry.
 *
 * @since 0.1.0
 * @category registry
 */
export const metrics: ReadonlyArray<Metric> = [...Text.metrics, ...Layout.metrics, ...Style.metrics, ...Images.metrics]
