/** The part of d3-contour that Temper uses. */
declare module "d3-contour" {
  interface MultiPolygon {
    /** The area contains the points above this value. */
    readonly value: number;
    /** Polygons of rings of points, in cells of the grid. */
    readonly coordinates: readonly (readonly (readonly [number, number])[])[][];
  }
  interface Contours {
    (values: readonly number[]): MultiPolygon[];
    size(size: readonly [number, number]): this;
    thresholds(values: readonly number[]): this;
  }
  export function contours(): Contours;
}
