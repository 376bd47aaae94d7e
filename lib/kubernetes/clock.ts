// Time, handed in so that tests can do without it.

export interface Clock {
  /** Milliseconds of performance.now(); only differences mean something. */
  now(): number;
  /** Calls once, `ms` from now at the earliest; keeps no process alive. Returns what takes it back. */
  after(ms: number, call: () => void): () => void;
}

/**
 * A deadline that passed while this program was busy is no deadline of the other side's: what has already arrived is read
 * first, since setImmediate comes after input in Node's loop.
 */
export const systemClock: Clock = {
  now: () => performance.now(),
  after: (ms, call) => {
    let immediate: NodeJS.Immediate | undefined;
    const timer = setTimeout(() => {
      immediate = setImmediate(call);
    }, ms).unref();
    return () => {
      clearTimeout(timer);
      if (immediate !== undefined) clearImmediate(immediate);
    };
  },
};
