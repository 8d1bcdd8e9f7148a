"""`linda serve`: a page to see interpolation, and the same over HTTP for other programs.

limits         how much one request may ask for
interpolation  the model, with scores; the only module here that knows `linda.interpolation`
tables         uploads and runs; the only module here that knows `linda.augmentation`
bench_results  folders of `linda bench`
batcher        one thread owns the engine; rows of concurrent callers are decoded together
schemas        what requests may say
origins        where each word of a text comes from
jobs           uploaded tables and the runs over them
guard          host, origin, token and size are checked before anything else; security headers
api            the routes
server         all of it as one application, and how it is run
static/        the page: HTML, CSS, JavaScript modules and a font
"""
