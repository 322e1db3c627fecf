from headway.surfaces.cli.main import main

main()
