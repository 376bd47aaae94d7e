// The definitions as metrics of prom-client. In: samples, and durations as they are observed. Out: the text of a scrape. Imported only
// where there is an address to scrape at. What is not among the samples of a scrape is not in its text.
import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Histogram from "prom-client/lib/histogram.js";
import Registry from "prom-client/lib/registry.js";
import { type Definition, METRICS, type MetricName, type Sample, type SampleLabels } from "./definitions.ts";

type HistogramName = {
  [N in MetricName]: (typeof METRICS)[N]["type"] extends "histogram" ? N : never;
}[MetricName];

export type Observe = <N extends HistogramName>(name: N, seconds: number, labels: SampleLabels<N>) => void;

export interface MetricRegistry {
  readonly contentType: string;
  readonly observe: Observe;
  /** Everything observed so far, and these. */
  text(samples: readonly Sample[]): Promise<string>;
}

export function createMetricRegistry(): MetricRegistry {
  const registry = new Registry();
  const written = new Map<string, Counter | Gauge>();
  const unlabelled = new Set<Counter | Gauge>();
  const histograms = new Map<string, Histogram>();
  for (const [name, { type, help, labels, buckets = [] }] of Object.entries<Definition>(METRICS)) {
    const common = { name, help, labelNames: Object.keys(labels), registers: [registry] };
    if (type === "histogram") {
      histograms.set(name, new Histogram({ ...common, buckets: [...buckets] }));
      continue;
    }
    const metric = type === "counter" ? new Counter(common) : new Gauge(common);
    written.set(name, metric);
    if (common.labelNames.length === 0) unlabelled.add(metric);
  }
  return {
    contentType: registry.contentType,
    observe: (name, seconds, labels) => histograms.get(name)?.observe({ ...labels }, seconds),
    text: (samples) => {
      for (const metric of written.values()) metric.reset();
      // They would be 0 now, which nobody has said.
      for (const metric of unlabelled) metric.remove();
      // Without a turn of the event loop until all of it is text: prom-client's promises have nothing to wait for.
      for (const { name, labels, value } of samples) written.get(name)?.inc({ ...labels }, value);
      return registry.metrics();
    },
  };
}
