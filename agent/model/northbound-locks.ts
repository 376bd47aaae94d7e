// Names of the locks under which rows are written (RFC 7047, 4.1.8). Pure.

export interface Locks {
  /** Of one node: two agents of it must not both write its rows. */
  readonly node: string;
  /** Of everybody who writes to this database: what all nodes share is written by the one who has it. */
  readonly zone: string;
}

export function locksOf(owner: string, node: string): Locks {
  return { node: `${asId(owner)}_node_${asId(node)}`, zone: `${asId(owner)}_zone` };
}

/** RFC 7047's <id> is a letter or underscore, then those and digits; other characters by their code, so that no two meet. */
function asId(text: string): string {
  return [...text]
    .map((unit, at) =>
      (at === 0 ? /[A-Za-z]/ : /[A-Za-z0-9]/).test(unit) ? unit : `_${unit.charCodeAt(0).toString(16)}_`,
    )
    .join("");
}
