"""`linda serve`: a web page for interpolation and augmentation, and an HTTP API for other programs.

limits         limits of a request
interpolation  the model, with scores; the only module here that uses `linda.interpolation`
tables         uploads and runs; the only module here that uses `linda.augmentation`
bench_results  folders of `linda bench`
batcher        one thread owns the engine; rows of concurrent callers are decoded together
schemas        the fields of requests
origins        where each word of a text comes from
jobs           uploaded tables and their runs
guard          checks host, origin, token and size before anything else; security headers
api            the routes
server         creates and runs the application
static/        the page: HTML, CSS, JavaScript modules and a font
"""
