// What stands for "the neighbours know": the key by which an announcement is found again. Pure.

/** This address, on this link, with this MAC. */
export function announcedToken(address: string, link: string, mac: string): string {
  return `${address} ${link} ${mac}`;
}

const ETHERNET = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/;

/** Tunnels and the like have no neighbours to tell or to ask. */
export function hasNeighbours(mac: string): boolean {
  return ETHERNET.test(mac);
}
