// One class for each thing that a caller can do something about. `cause` is kept where there is one.

/** The other side sent something that RFC 7047 or ovsdb-server(7) does not know. Never guessed around. */
export class ParseError extends Error {
  override readonly name = "ParseError";

  constructor(what: string, cause?: unknown) {
    super(what, { cause });
  }
}

/** A message grew beyond the limit; the connection it came over is given up. */
export class OversizedError extends Error {
  override readonly name = "OversizedError";
  readonly limitBytes: number;

  constructor(limitBytes: number) {
    super(`a message of more than ${limitBytes} bytes`);
    this.limitBytes = limitBytes;
  }
}

/** A wrong setting: endpoints that are none, ssl without files, a table named twice. */
export class SettingError extends Error {
  override readonly name = "SettingError";
}

/** The connection could not be made, or it is gone. */
export class ConnectionError extends Error {
  override readonly name: string = "ConnectionError";

  constructor(what: string, cause?: unknown) {
    super(what, { cause });
  }
}

/** Nothing was heard for too long, although we asked: a half-open connection, or a server that stands still. */
export class UnresponsiveError extends ConnectionError {
  override readonly name = "UnresponsiveError";
}

/** Key, certificate or CA file cannot be read, or do not belong together. */
export class TlsFilesError extends ConnectionError {
  override readonly name = "TlsFilesError";
}

/** This server cannot be used: no such database, not in its cluster, not the leader, behind what was seen. */
export class UnsuitableServerError extends Error {
  override readonly name: string = "UnsuitableServerError";
}

/** The server belongs to another cluster than the one asked for, or than the one met before. */
export class ClusterMismatchError extends UnsuitableServerError {
  override readonly name = "ClusterMismatchError";
  readonly expected: string;
  readonly found: string;

  constructor(expected: string, found: string) {
    super(
      `the server is of cluster ${found}, not of ${expected}: another database, or one made anew, which a new session takes`,
    );
    this.expected = expected;
    this.found = found;
  }
}

/** A column of the server's schema is of another type than the table definition says. */
export class SchemaMismatchError extends Error {
  override readonly name = "SchemaMismatchError";
}

/** A table or column that the server's schema does not have was written or asked for. Nothing was sent. */
export class UnknownColumnError extends Error {
  override readonly name = "UnknownColumnError";
  readonly table: string;
  readonly column: string | undefined;

  constructor(table: string, column?: string) {
    super(
      `the schema has no ${column === undefined ? `table ${table}` : `column ${column} in table ${table}`}`,
    );
    this.table = table;
    this.column = column;
  }
}

/** A value that does not fit its column. Nothing was sent. */
export class ValueError extends Error {
  override readonly name = "ValueError";
}

/** The server refused a request as a whole (RFC 7047, 4.1: the reply's `error`). It was not carried out. */
export class RemoteError extends Error {
  override readonly name = "RemoteError";
  readonly method: string;
  /** "unknown database", "unknown method", "syntax error", … */
  readonly error: string;
  readonly details: string;

  constructor(method: string, error: string, details: string) {
    super(`${method}: ${error}${details === "" ? "" : `: ${details}`}`);
    this.method = method;
    this.error = error;
    this.details = details;
  }
}

/** One operation of a transaction failed, so none of it was carried out (RFC 7047, 4.1.3). */
export class OperationError extends Error {
  override readonly name = "OperationError";
  /** Of the operation; their number, if it was committing the whole that failed. */
  readonly index: number;
  /** The operation as it was given, undefined for the commit. */
  readonly operation: unknown;
  /** "constraint violation", "referential integrity violation", "timed out", "not owner", "aborted", … */
  readonly error: string;
  readonly details: string;

  constructor(index: number, operation: unknown, error: string, details: string) {
    const which =
      operation === undefined ? "commit" : `operation ${index} ${JSON.stringify(operation).slice(0, 500)}`;
    super(`${which}: ${error}${details === "" ? "" : `: ${details}`}`);
    this.index = index;
    this.operation = operation;
    this.error = error;
    this.details = details;
  }
}

/**
 * A transaction was sent and its reply never came: it may have been carried out, or not, or will be. The connection is
 * given up, and the replica is read anew before anything else is sent.
 */
export class OutcomeUnknownError extends Error {
  override readonly name = "OutcomeUnknownError";

  constructor(cause: unknown) {
    super(`no reply to a transaction: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** The session is not current. Nothing was sent. `cause` says why it is not, where that is known. */
export class NotCurrentError extends Error {
  override readonly name = "NotCurrentError";

  constructor(state: string, cause?: unknown) {
    super(`the session is ${state}${cause instanceof Error ? `: ${cause.message}` : ""}`, { cause });
  }
}

/** The session was closed by its owner. */
export class ClosedError extends Error {
  override readonly name = "ClosedError";

  constructor() {
    super("the session is closed");
  }
}
