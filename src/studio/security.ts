// Protects a studio from other pages and users: its token, and the headers of its answers.
import { randomBytes, timingSafeEqual } from "node:crypto";
import type { Context, MiddlewareHandler } from "hono";
import { HttpError } from "../serve/http.js";

/** A secret that only the person who started the studio knows. */
export function createToken(): string {
  return randomBytes(24).toString("base64url");
}

/**
 * The page may load its own files and nothing else. It has no inline script or style, so text that
 * became markup by mistake could not run.
 */
const contentSecurityPolicy = [
  ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'"],
  ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join("; ");

export const addSecurityHeaders: MiddlewareHandler = async (context, next) => {
  await next();
  context.header("content-security-policy", contentSecurityPolicy);
  context.header("referrer-policy", "no-referrer");
  context.header("cross-origin-opener-policy", "same-origin");
  context.header("cross-origin-resource-policy", "same-origin");
  if (!context.res.headers.has("cache-control")) context.header("cache-control", "no-store");
};

export function checkToken(token: string, given: string | undefined): void {
  const [expected, received] = [Buffer.from(token), Buffer.from(given ?? "")];
  if (expected.length === received.length && timingSafeEqual(expected, received)) return;
  throw new HttpError(403, "The token is missing or wrong. Open the address that temper studio printed.");
}

/**
 * The token of a request to the API. It is a header, because the page of another site cannot make a
 * browser send it.
 */
export function readBearerToken(context: Context): string | undefined {
  return /^Bearer (\S+)$/.exec(context.req.header("authorization") ?? "")?.[1];
}
