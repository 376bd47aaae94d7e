// Ends requests without ending the process. undici 8.13.1: an HTTP/2 request that is aborted in the turn of the event loop in which it
// was written leaves a stream behind that nobody listens to; when its connection ends, that is an uncaught exception. So the
// end of a request waits until that turn is over.
import type { Dispatcher } from "undici";

const WRITTEN = Symbol("written");

export interface Abortable {
  /** To be put among a request's options. */
  readonly options: { readonly signal: AbortSignal; readonly [WRITTEN]: () => void };
}

/** `signal`, but for the turn in which the request is written. */
export function abortable(signal: AbortSignal): Abortable {
  const inner = new AbortController();
  let isYoung = false;
  const abort = (): void => {
    if (!isYoung) inner.abort(signal.reason);
  };
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  const written = (): void => {
    isYoung = true;
    setImmediate(() => {
      isYoung = false;
      if (signal.aborted) abort();
    });
  };
  return { options: { signal: inner.signal, [WRITTEN]: written } };
}

type Handler = Dispatcher.DispatchHandler;

type Start = Parameters<Required<Handler>["onRequestStart"]>;

/** undici's own, which hands everything on; its types leave out that it has methods. */
export type Decorator = new (
  handler: Handler,
) => Omit<Handler, "onRequestStart"> & { onRequestStart(...told: Start): void };

/** Says of each request when it is written. */
export function saysWhenWritten(decorator: Decorator): Dispatcher.DispatcherComposeInterceptor {
  class Telling extends decorator {
    readonly #written: () => void;

    constructor(handler: Handler, written: () => void) {
      super(handler);
      this.#written = written;
    }

    override onRequestStart(...told: Start): void {
      this.#written();
      super.onRequestStart(...told);
    }
  }
  return (dispatch) => (options, handler) => {
    const { [WRITTEN]: written } = options as Partial<Abortable["options"]>;
    return dispatch(options, written === undefined ? handler : new Telling(handler, written));
  };
}
