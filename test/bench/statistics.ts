// Figures that a noisy machine spoils least. Pure.

export const median = (values: readonly number[]): number => percentile(values, 0.5);

/** `part` of them are less: 0.99. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length * part)] ?? Number.NaN;
}
