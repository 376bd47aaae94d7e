// Who wants to be told of something. A listener that throws keeps nobody else from hearing, and nothing from going on.

export interface Listeners<A extends readonly unknown[]> {
  /** Returns what takes the listener back. */
  add(listener: (...told: A) => void): () => void;
  tell(...told: A): void;
}

export function createListeners<A extends readonly unknown[]>(): Listeners<A> {
  const listeners = new Set<(...told: A) => void>();
  return {
    add: (listener) => {
      // Each call is a registration of its own, also of the same function.
      const own = (...told: A): void => listener(...told);
      listeners.add(own);
      return () => void listeners.delete(own);
    },
    tell: (...told) => {
      for (const listener of [...listeners]) {
        try {
          listener(...told);
        } catch (error) {
          // A fault of the listener's, and as loud as any: an uncaught exception.
          queueMicrotask(() => {
            throw error;
          });
        }
      }
    },
  };
}
