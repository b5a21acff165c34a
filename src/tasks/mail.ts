import { parseHTML } from "linkedom";
import PostalMime from "postal-mime";

/** A mail's subject and the lines of its body, without what shows only how it came: see `cleanSubject` and `cleanLines`. */
export interface CleanEmail {
  readonly subject: string;
  readonly lines: readonly string[];
}

/** Decodes a raw mail (MIME, charsets, HTML) and cleans it. */
export async function parseEmail(raw: Uint8Array): Promise<CleanEmail> {
  const mail = await PostalMime.parse(raw);
  const body = mail.text?.trim() ? mail.text : htmlToText(mail.html ?? "");
  // Some plain-text parts hold a page of HTML all the same.
  const text = /<(html|body|table|font|br)\b/i.test(body) ? htmlToText(body) : body;
  return { subject: cleanSubject(mail.subject ?? ""), lines: cleanLines(text) };
}

const blockTags = "address, blockquote, br, center, div, dd, dt, h1, h2, h3, h4, h5, h6, hr, li, p, table, td, th, tr";

/** The text that a page shows, a line a block. */
export function htmlToText(html: string): string {
  // A mail is often a piece of a page only, which needs a body to be found in.
  const { document } = parseHTML(
    `<!doctype html><html><body>${html.replace(/<!doctype[^>]*>|<\/?(html|body)\b[^>]*>/gi, "")}</body></html>`,
  );
  for (const unseen of document.querySelectorAll("script, style, title")) unseen.remove();
  for (const block of document.querySelectorAll(blockTags)) {
    block.before("\n");
    block.after("\n");
  }
  return (document.body.textContent ?? "").replace(/[ \t\u00a0]+/g, " ").replace(/\s*\n\s*/g, "\n");
}

/** Without list tags ([ILUG]) and the marks of answers and forwards: only lists and conversations have those. */
export function cleanSubject(subject: string): string {
  return removeAddresses(subject.replace(/^(\s*(re|fwd?|aw|sv)\s*(\[\d+\])?:|\s*\[[^\]]{1,40}\])+/i, ""));
}

/** Ends of what the sender wrote: a signature, the mail that is answered or forwarded, a PGP signature. */
const ending = /^(--\s*|-{2,}\s*(original|forwarded) message.*|-{5}BEGIN PGP SIGNATURE-{5}|begin \d{3} \S+)$/i;
/** Quoted lines, also those that carry the initials of who is quoted. */
const quoted = /^(\w{0,3}\s?[>|]|[:}]\s)/;
/** The line that introduces a quotation. */
const attribution = /(\b(wrote|writes|said|says)\s*:?\s*$)|^On .{10,80}(wrote|,)$/i;
/** A mail's or a feed's header inside the text. */
const header =
  /^(from|to|cc|date|sent|subject|url|link|received|message-id|return-path|(reply|errors)-to|precedence|hash|version|charset|mime-version|(content|list|x)-[a-z-]+)\s*:/i;
/** A line of an undecoded attachment. */
const encoded = /^\S{50,}$/;

const host =
  /\b(?:[a-z0-9-]+\.)+(?:com|net|org|edu|gov|info|biz|ie|uk|us|de|fr|ca|au|tw|kr|cn|it|cc|tv|ws|nl|be|ch|es|se)\b(?:\/[^\s>]*)?/gi;

/** The lines that the sender wrote, without quotations, signatures, headers, addresses of the net and rules. */
export function cleanLines(text: string): string[] {
  const lines = text.split(/\r?\n/);
  const end = lines.findIndex((line, index) => index > 0 && ending.test(line.trim()));
  return lines
    .slice(0, end < 0 ? undefined : end)
    .map((line) => line.trim())
    .filter(
      (line) =>
        ![quoted, attribution, header, encoded].some((kind) => kind.test(line)) && !line.startsWith("-----BEGIN PGP"),
    )
    .map(removeAddresses)
    .filter((line) => /[\p{L}\p{N}]/u.test(line));
}

/**
 * Mail addresses, links and hosts name the lists and the sellers; zzzz, yyyy and xxxx stand for the corpus's own recipients. They go, and so
 * do the brackets around them and the rules drawn with punctuation.
 */
function removeAddresses(text: string): string {
  return text
    .replace(/\b(https?|ftp|mailto):\s*[^\s>]+/gi, " ")
    .replace(/[\w.+-]+@[\w-]+(\.[\w-]+)*/g, " ")
    .replace(host, " ")
    .replace(/\b(x{4,}|y{4,}|z{4,})\b/gi, " ")
    .replace(/<\s*>|\(\s*\)|\[\s*\]/g, " ")
    .replace(/([^\p{L}\p{N}\s])\1{3,}/gu, " ")
    .replace(/\s+/g, " ")
    .trim();
}
