export function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Formats an integer with thousands separators: 12,345. */
export function formatCount(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/**
 * Formats a number with four significant digits, without an exponent unless it is very large or
 * small.
 */
export function formatNumber(value: number, digits = 4): string {
  if (!Number.isFinite(value) || value === 0) return String(value);
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e9) return value.toExponential(digits - 1);
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en-US", { maximumFractionDigits: decimals });
}

/** Formats a fraction as a percentage: 0.4231 becomes 42.3%. */
export function formatPercent(fraction: number, decimals = 1): string {
  return `${(fraction * 100).toFixed(decimals)}%`;
}

/** Formats a difference of fractions in percentage points: 0.0423 becomes 4.2. */
export function formatPoints(difference: number): string {
  return (100 * difference).toFixed(1).replace(/^-(0\.0)$/, "$1");
}

/** Formats an interval of fractions: 41.2% to 44.8%. */
export function formatInterval(low: number, high: number): string {
  return `${formatPercent(low)} to ${formatPercent(high)}`;
}

/** Formats a number with its confidence interval: 0.042 (0.031 to 0.055). */
export function formatWithInterval(
  value: number,
  { low, high }: { readonly low: number; readonly high: number },
  digits = 3,
): string {
  return `${formatNumber(value, digits)} (${formatNumber(low, digits)} to ${formatNumber(high, digits)})`;
}

/** Formats a p-value with its relation: "= 0.031" or "< 0.001". */
export function formatPValue(p: number): string {
  return p < 0.001 ? "< 0.001" : `= ${p.toFixed(3)}`;
}

/** Formats bytes in powers of ten: 1.5 GB. */
export function formatBytes(bytes: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return power === 0 ? `${bytes} bytes` : `${(bytes / 1000 ** power).toFixed(1)} ${units[power]}`;
}

/** Formats a duration that is not known exactly: 40 s, 12 min, 3 h 20 min, 4 d 6 h. */
export function formatRoughDuration(seconds: number): string {
  const join = (value: number, large: string, per: number, small: string): string => {
    const [whole, rest] = [Math.floor(value / per), Math.round(value % per)];
    return rest === 0 ? `${whole} ${large}` : `${whole} ${large} ${rest} ${small}`;
  };
  const minutes = Math.round(seconds / 60);
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (minutes < 60) return `${minutes} min`;
  // The minutes of many hours are not known.
  if (minutes < 10 * 60) return join(Math.round(minutes / 10) * 10, "h", 60, "min");
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h` : join(hours, "d", 24, "h");
}

/** Formats a duration like a clock: 0:07, 12:40, 3:05:00. */
export function formatDuration(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000);
  const pad = (value: number): string => String(value).padStart(2, "0");
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return hours > 0 ? `${hours}:${pad(minutes)}:${pad(rest)}` : `${minutes}:${pad(rest)}`;
}
