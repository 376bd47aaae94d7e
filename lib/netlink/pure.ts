// The door for code that must not touch the host: parsers and printers.
export { BatchError, ParseError } from "./errors.ts";
export { type Neighbour, parseNeighbours } from "./neighbours.ts";
export {
  parseAddresses,
  parseRoutes,
  parseRules,
  parseVrfs,
  withVrfs,
} from "./parse.ts";
export { routeSlot, routeWords, ruleWords } from "./print.ts";
export type { Family, Hop, Link, LinkAddress, Route, Rule } from "./types.ts";
