// One class for each thing that a caller can do something about. `cause` is kept where there is one.

/** Of a Status object: what the server says beside its code (k8s.io/apimachinery, metav1.StatusDetails). */
export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly causes?: readonly {
    readonly reason?: string;
    readonly message?: string;
    readonly field?: string;
  }[];
  readonly retryAfterSeconds?: number;
}

export interface StatusParts {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  readonly retryAfterMs: number | undefined;
  readonly details: StatusDetails | undefined;
}

/** The server said no. */
export class StatusError extends Error {
  override readonly name = "StatusError";
  /** The HTTP status, or that of an ERROR event in a watch. */
  readonly code: number;
  /** "Forbidden", "NotFound", "Expired", …; "" where the server gave none. */
  readonly reason: string;
  /** When it wants to be asked again; undefined where it did not say. */
  readonly retryAfterMs: number | undefined;
  readonly details: StatusDetails | undefined;

  constructor(asked: string, status: StatusParts, cause?: unknown) {
    super(`${asked}: ${status.code}${status.reason === "" ? "" : ` ${status.reason}`}: ${status.message}`, {
      cause,
    });
    this.code = status.code;
    this.reason = status.reason;
    this.retryAfterMs = status.retryAfterMs;
    this.details = status.details;
  }
}

/** No answer, or none in time, or one that was cut: nothing is known of what became of the request. */
export class UnreachableError extends Error {
  override readonly name = "UnreachableError";

  constructor(what: string, cause?: unknown) {
    super(what, { cause });
  }
}

/** Kubeconfig, service account, certificates or an exec plug-in cannot be used. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";

  constructor(what: string, cause?: unknown) {
    super(what, { cause });
  }
}

/** The server answered with something that is not what the API says. Never guessed around. */
export class ParseError extends Error {
  override readonly name = "ParseError";

  constructor(what: string, cause?: unknown) {
    super(what, { cause });
  }
}
