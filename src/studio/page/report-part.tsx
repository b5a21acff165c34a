import { useEffect, useRef } from "preact/hooks";
import { stylesheet } from "../../report/stylesheet.js";

const sheet = new CSSStyleSheet();
sheet.replaceSync(stylesheet);

/**
 * Shows a part of a report. It has a tree of its own, so that the styles of the report and of the
 * studio do not mix; the colors are those of the studio's theme.
 */
export function ReportPart({ html }: { html: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current!;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [sheet];
    root.innerHTML = html;
  }, [html]);
  return <div class="report-part" ref={host} />;
}
