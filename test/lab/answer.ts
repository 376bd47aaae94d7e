// What a server of the lab said. Pure.

/** Who answered, and what source address it saw. */
export interface Answer {
  readonly server: string;
  readonly source: string;
}

/** Reads `NAME saw ADDRESS`; undefined is any other text. */
export function readAnswer(text: string): Answer | undefined {
  const [, server, source] = /^(.+) saw (\S+)$/.exec(text) ?? [];
  return server === undefined || source === undefined ? undefined : { server, source };
}
