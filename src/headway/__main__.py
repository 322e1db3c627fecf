from headway.surfaces.cli.entry import run

run()
