// What stands for "the neighbours know": the key by which an announcement is found again. Pure.

/** This address, on this link, with this MAC. */
export function announcedToken(address: string, link: string, mac: string): string {
  return `${address} ${link} ${mac}`;
}
