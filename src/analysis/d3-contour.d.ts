/** The part of d3-contour that we use. */
declare module "d3-contour" {
  interface MultiPolygon {
    /** The value that the area lies above. */
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
