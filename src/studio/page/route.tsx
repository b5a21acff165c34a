import { useEffect, useState } from "preact/hooks";

/** A page of the studio and its parameters, as the part of the address after #. */
export interface Route {
  readonly page: string;
  readonly query: URLSearchParams;
}

function readRoute(): Route {
  const [, page = "", search = ""] = /^#\/([\w-]*)\??(.*)$/.exec(location.hash) ?? [];
  return { page: page || "runs", query: new URLSearchParams(search) };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(readRoute);
  useEffect(() => {
    const update = (): void => {
      setRoute(readRoute());
      scrollTo(0, 0);
    };
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return route;
}

export function linkTo(page: string, query: Record<string, string> | string[][] = {}): string {
  const search = new URLSearchParams(query).toString();
  return `#/${page}${search && `?${search}`}`;
}
