// A registry of npm on loopback that has some archives, and sends npm to the usual registry for all other packages.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

/**
 * @typedef {object} Published
 * @property {string} path of the archive
 * @property {{ name: string, version: string }} manifest
 */

/**
 * Starts the registry on a free port.
 * @param {readonly Published[]} published
 */
export async function startRegistry(published) {
  const upstream = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8" }).trim();
  const byName = new Map(published.map((each) => [each.manifest.name, each]));
  let url = "";
  const server = createServer((request, response) => {
    const path = decodeURIComponent((request.url ?? "/").slice(1));
    const isArchive = path.startsWith("archives/");
    const found = byName.get(isArchive ? path.slice("archives/".length) : path);
    if (!found) return response.writeHead(302, { location: new URL(path.replace("/", "%2f"), upstream).href }).end();
    const bytes = readFileSync(found.path);
    if (isArchive) return response.writeHead(200, { "content-type": "application/octet-stream" }).end(bytes);
    const { name, version } = found.manifest;
    const integrity = `sha512-${createHash("sha512").update(bytes).digest("base64")}`;
    const dist = { tarball: `${url}archives/${encodeURIComponent(name)}`, integrity };
    const versions = { [version]: { ...found.manifest, dist } };
    const packument = { name, "dist-tags": { latest: version }, versions };
    return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(packument));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("expected a port");
  url = `http://127.0.0.1:${address.port}/`;
  return { url, close: () => server.close() };
}
