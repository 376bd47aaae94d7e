// An address where it is: the same one on two links is two things. Pure.

export interface OnLink {
  readonly address: string;
  readonly link: string;
}

/** The key of such a pair. */
export function onLink({ address, link }: OnLink): string {
  return `${address} ${link}`;
}
