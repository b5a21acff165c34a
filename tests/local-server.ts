import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** Starts a server for the running test, which gets the JSON of each request, and returns its URL. */
export async function startJsonServer(
  answer: (body: never, response: ServerResponse, message: IncomingMessage) => void,
): Promise<string> {
  const server = createServer(async (message, response) => {
    let body = "";
    for await (const chunk of message) body += chunk;
    answer(JSON.parse(body) as never, response, message);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}
